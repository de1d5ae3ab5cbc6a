package onceproof;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.Serializable;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * A source of Flink over the splits of a scenario, which logs what it passes.
 *
 * <p>The rules this class lives by:
 *
 * <ul>
 *   <li>A split is an entry of the file of records. Each has a watermark of its own, as with any source of Flink.
 *   <li>A reader gives some records, then waits until a checkpoint is complete, so that a short input spans several
 *       checkpoints.
 *   <li>Positions are stored as text that is found in the metadata of a checkpoint without Flink. A split that
 *       has been read stays in the state of its reader.
 * </ul>
 */
public final class ScenarioSource
    implements Source<byte[], ScenarioSource.Split, List<ScenarioSource.Split>>, Serializable {
  private static final long serialVersionUID = 1L;

  private final String records;
  private final SourceLog log;
  private final int recordsPerCheckpoint;
  private final long pauseMs;
  private final boolean endless;

  /**
   * @param records the file with the splits
   * @param log what it passes
   * @param recordsPerCheckpoint how many records a reader gives before it waits for the next checkpoint
   * @param pauseMs milliseconds between two records
   * @param endless whether readers wait behind the last record
   */
  public ScenarioSource(
      String records,
      SourceLog log,
      int recordsPerCheckpoint,
      long pauseMs,
      boolean endless) {
    this.records = records;
    this.log = log;
    this.recordsPerCheckpoint = recordsPerCheckpoint;
    this.pauseMs = pauseMs;
    this.endless = endless;
  }

  @Override
  public Boundedness getBoundedness() {
    return endless ? Boundedness.CONTINUOUS_UNBOUNDED : Boundedness.BOUNDED;
  }

  @Override
  public SourceReader<byte[], Split> createReader(SourceReaderContext context) {
    return new Reader(this, context);
  }

  @Override
  public SplitEnumerator<Split, List<Split>> createEnumerator(SplitEnumeratorContext<Split> context)
      throws IOException {
    List<Split> waiting = new ArrayList<>();
    int place = 0;
    for (String split : readRecords(records).keySet()) {
      waiting.add(new Split(split, place++, 0, 0));
    }
    return new Enumerator(this, context, waiting);
  }

  @Override
  public SplitEnumerator<Split, List<Split>> restoreEnumerator(
      SplitEnumeratorContext<Split> context, List<Split> waiting) {
    return new Enumerator(this, context, new ArrayList<>(waiting));
  }

  @Override
  public SimpleVersionedSerializer<Split> getSplitSerializer() {
    return new SplitSerializer();
  }

  @Override
  public SimpleVersionedSerializer<List<Split>> getEnumeratorCheckpointSerializer() {
    return new WaitingSerializer();
  }

  /** One record of a split. */
  record Timed(long timestamp, byte[] value) {}

  /** Returns the records of all splits, in the order of the file. */
  static Map<String, List<Timed>> readRecords(String path) throws IOException {
    Map<String, List<Timed>> splits = new java.util.LinkedHashMap<>();
    try (DataInputStream file =
        new DataInputStream(new BufferedInputStream(Files.newInputStream(Paths.get(path))))) {
      int count = file.readInt();
      for (int split = 0; split < count; split++) {
        byte[] name = new byte[file.readInt()];
        file.readFully(name);
        int length = file.readInt();
        List<Timed> values = new ArrayList<>(length);
        for (int offset = 0; offset < length; offset++) {
          long timestamp = file.readLong();
          byte[] value = new byte[file.readInt()];
          file.readFully(value);
          values.add(new Timed(timestamp, value));
        }
        splits.put(new String(name, StandardCharsets.UTF_8), values);
      }
    }
    return splits;
  }

  /** How far a split has been read, by the checkpoint that says so; without a name: only the checkpoint. */
  public static final class Split implements SourceSplit, Serializable {
    private static final long serialVersionUID = 1L;
    final String name;
    final int place;
    final int offset;
    final long checkpoint;

    Split(String name, int place, int offset, long checkpoint) {
      this.name = name;
      this.place = place;
      this.offset = offset;
      this.checkpoint = checkpoint;
    }

    @Override
    public String splitId() {
      return name;
    }

    String text(String state) {
      return SourceLog.position(state, place, offset, checkpoint, name);
    }

    static Split of(String text) {
      String[] words = text.substring(1, text.length() - 1).split(" ", 5);
      return new Split(
          URLDecoder.decode(words[4], StandardCharsets.UTF_8),
          Integer.parseInt(words[1]),
          Integer.parseInt(words[2]),
          Long.parseLong(words[3]));
    }
  }

  /** Splits as text in the state of readers. */
  static final class SplitSerializer implements SimpleVersionedSerializer<Split> {
    @Override
    public int getVersion() {
      return 1;
    }

    @Override
    public byte[] serialize(Split split) {
      return split.text("onceproof-read").getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public Split deserialize(int version, byte[] bytes) {
      return Split.of(new String(bytes, StandardCharsets.UTF_8));
    }
  }

  /** Splits that no reader has yet, as text. */
  static final class WaitingSerializer implements SimpleVersionedSerializer<List<Split>> {
    @Override
    public int getVersion() {
      return 1;
    }

    @Override
    public byte[] serialize(List<Split> splits) {
      StringBuilder text = new StringBuilder();
      for (Split split : splits) {
        text.append(split.text("onceproof-waiting")).append('\n');
      }
      return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public List<Split> deserialize(int version, byte[] bytes) {
      List<Split> splits = new ArrayList<>();
      new String(bytes, StandardCharsets.UTF_8).lines().forEach(line -> splits.add(Split.of(line)));
      return splits;
    }
  }

  /** Gives each split to the reader whose turn it is; runs in the JobManager. */
  static final class Enumerator implements SplitEnumerator<Split, List<Split>> {
    private final ScenarioSource source;
    private final SplitEnumeratorContext<Split> context;
    private final List<Split> waiting;

    Enumerator(ScenarioSource source, SplitEnumeratorContext<Split> context, List<Split> waiting) {
      this.source = source;
      this.context = context;
      this.waiting = waiting;
    }

    @Override
    public void start() {}

    @Override
    public void handleSplitRequest(int subtask, String host) {}

    @Override
    public void addSplitsBack(List<Split> splits, int subtask) {
      for (Split split : splits) {
        if (!split.name.isEmpty()) {
          waiting.add(split);
        }
      }
    }

    @Override
    public void addReader(int subtask) {
      for (Split split : new ArrayList<>(waiting)) {
        if (split.place % context.currentParallelism() == subtask) {
          waiting.remove(split);
          context.assignSplit(split, subtask);
        }
      }
      context.signalNoMoreSplits(subtask);
    }

    @Override
    public List<Split> snapshotState(long checkpoint) {
      source.log.note("triggered", -1, -1, checkpoint);
      return new ArrayList<>(waiting);
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) {
      source.log.keep(checkpoint);
      source.log.note("completed", -1, -1, checkpoint);
    }

    @Override
    public void close() {}
  }

  /** Gives the records of its splits in turn. */
  static final class Reader implements SourceReader<byte[], Split> {
    private final ScenarioSource source;
    private final SourceReaderContext context;
    private final int attempt;
    private final List<Split> splits = new ArrayList<>();
    private final Map<String, SourceOutput<byte[]>> outputs = new HashMap<>();
    private Map<String, List<Timed>> records;
    private CompletableFuture<Void> available = new CompletableFuture<>();
    private long restored;
    private int allowance;
    private int turn;
    private boolean hasAll;
    private boolean hasEnded;

    Reader(ScenarioSource source, SourceReaderContext context) {
      this.source = source;
      this.context = context;
      this.allowance = source.recordsPerCheckpoint;
      this.attempt =
          Integer.parseInt(
              context.metricGroup().getAllVariables().getOrDefault("<task_attempt_num>", "0"));
    }

    @Override
    public void start() {
      try {
        records = readRecords(source.records);
      } catch (IOException error) {
        throw new IllegalStateException(source.records + ": cannot be read", error);
      }
      note("restored", restored);
    }

    @Override
    public void addSplits(List<Split> given) {
      for (Split split : given) {
        restored = Math.max(restored, split.checkpoint);
        if (!split.name.isEmpty()) {
          splits.add(split);
        }
      }
      available.complete(null);
    }

    @Override
    public void notifyNoMoreSplits() {
      hasAll = true;
      available.complete(null);
    }

    @Override
    public InputStatus pollNext(ReaderOutput<byte[]> output) throws Exception {
      if (!hasAll) {
        // Splits come one by one. A watermark of the first ones would make the records of the others late.
        return waits();
      }
      for (Split split : splits) {
        if (!outputs.containsKey(split.name) && !isRead(split)) {
          outputs.put(split.name, output.createOutputForSplit(split.name));
        }
      }
      for (int step = 0; step < splits.size(); step++) {
        int place = (turn + step) % splits.size();
        Split split = splits.get(place);
        if (isRead(split)) {
          continue;
        }
        if (allowance == 0) {
          return waits();
        }
        allowance--;
        turn = place + 1;
        Timed next = records.get(split.name).get(split.offset);
        outputs.get(split.name).collect(next.value(), next.timestamp());
        Split read = new Split(split.name, split.place, split.offset + 1, split.checkpoint);
        splits.set(place, read);
        if (isRead(read) && !source.endless) {
          output.releaseOutputForSplit(split.name);
          outputs.remove(split.name);
        }
        note("element", 0);
        if (source.pauseMs > 0) {
          Thread.sleep(source.pauseMs);
        }
        return InputStatus.MORE_AVAILABLE;
      }
      if (!hasEnded) {
        hasEnded = true;
        note("end_of_data", 0);
      }
      return source.endless ? waits() : InputStatus.END_OF_INPUT;
    }

    private boolean isRead(Split split) {
      return split.offset >= records.get(split.name).size();
    }

    private InputStatus waits() {
      if (available.isDone()) {
        available = new CompletableFuture<>();
      }
      return InputStatus.NOTHING_AVAILABLE;
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
      return available;
    }

    @Override
    public List<Split> snapshotState(long checkpoint) {
      note("snapshotted", checkpoint);
      List<Split> state = new ArrayList<>();
      state.add(new Split("", 0, 0, checkpoint));
      for (Split split : splits) {
        state.add(new Split(split.name, split.place, split.offset, checkpoint));
      }
      return state;
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) {
      note("notified", checkpoint);
      allowance = source.recordsPerCheckpoint;
      available.complete(null);
    }

    @Override
    public void notifyCheckpointAborted(long checkpoint) {
      note("aborted", checkpoint);
    }

    private void note(String kind, long checkpoint) {
      source.log.note(kind, context.getIndexOfSubtask(), attempt, checkpoint);
    }

    @Override
    public void close() {}
  }
}
