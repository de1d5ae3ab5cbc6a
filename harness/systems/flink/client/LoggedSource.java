package onceproof;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.common.serialization.AbstractDeserializationSchema;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SourceOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.SplitsAssignment;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * Flink's source of a topic of Kafka, unchanged, with a log of what it passes.
 *
 * <p>The rules this class lives by:
 *
 * <ul>
 *   <li>Each call goes on to Flink's own source. The connector is not compiled against.
 *   <li>A message is the timestamp of its record in eight bytes, and the value. Each split has a watermark of its own.
 *   <li>Behind the state of a split stands its position as text. Splits that no reader has yet stand in the state of the
 *       enumerator, as text as well. A split that stands in neither has been read.
 * </ul>
 */
public final class LoggedSource<SplitT extends SourceSplit, StateT>
    implements Source<byte[], SplitT, LoggedSource.State<StateT>>, Serializable {
  private static final long serialVersionUID = 1L;

  private final Source<byte[], SplitT, StateT> source;
  private final SourceLog log;
  private final String topic;
  private final ArrayList<String> names;

  /**
   * @param source Flink's source
   * @param log what it passes
   * @param topic that it reads
   * @param names of the splits of the scenario, by partition
   */
  public LoggedSource(Source<byte[], SplitT, StateT> source, SourceLog log, String topic, List<String> names) {
    this.source = source;
    this.log = log;
    this.topic = topic;
    this.names = new ArrayList<>(names);
  }

  /** Gives messages as they are. */
  public static final class Messages extends AbstractDeserializationSchema<byte[]> {
    private static final long serialVersionUID = 1L;

    public Messages() {
      super(byte[].class);
    }

    @Override
    public byte[] deserialize(byte[] message) {
      return message;
    }
  }

  /** The state of the enumerator, and the ids of the splits that no reader has. */
  public record State<StateT>(StateT state, List<String> waiting) {}

  private int partitionOf(String split) {
    return Integer.parseInt(split.substring(split.lastIndexOf('-') + 1));
  }

  private String position(String state, String split, long offset) {
    int partition = partitionOf(split);
    return SourceLog.position(state, partition, offset, 0, names.get(partition));
  }

  @Override
  public Boundedness getBoundedness() {
    return source.getBoundedness();
  }

  @Override
  public SourceReader<byte[], SplitT> createReader(SourceReaderContext context) throws Exception {
    return new Reader(source.createReader(context), context);
  }

  @Override
  public SplitEnumerator<SplitT, State<StateT>> createEnumerator(SplitEnumeratorContext<SplitT> context)
      throws Exception {
    Set<String> waiting = new HashSet<>();
    for (int partition = 0; partition < names.size(); partition++) {
      waiting.add(topic + "-" + partition);
    }
    return new Enumerator(source.createEnumerator(watched(context, waiting)), waiting);
  }

  @Override
  public SplitEnumerator<SplitT, State<StateT>> restoreEnumerator(
      SplitEnumeratorContext<SplitT> context, State<StateT> state) throws Exception {
    Set<String> waiting = new HashSet<>(state.waiting());
    return new Enumerator(source.restoreEnumerator(watched(context, waiting), state.state()), waiting);
  }

  /** Returns the context, which takes splits out of those that wait when a reader gets them. */
  @SuppressWarnings("unchecked")
  private SplitEnumeratorContext<SplitT> watched(SplitEnumeratorContext<SplitT> context, Set<String> waiting) {
    return (SplitEnumeratorContext<SplitT>)
        Proxy.newProxyInstance(
            LoggedSource.class.getClassLoader(),
            new Class<?>[] {SplitEnumeratorContext.class},
            (proxy, method, arguments) -> {
              if (method.getName().equals("assignSplits")) {
                ((SplitsAssignment<SplitT>) arguments[0])
                    .assignment().values().forEach(given -> given.forEach(each -> waiting.remove(each.splitId())));
              } else if (method.getName().equals("assignSplit")) {
                waiting.remove(((SourceSplit) arguments[0]).splitId());
              }
              try {
                return method.invoke(context, arguments);
              } catch (InvocationTargetException error) {
                throw error.getCause();
              }
            });
  }

  @Override
  public SimpleVersionedSerializer<SplitT> getSplitSerializer() {
    SimpleVersionedSerializer<SplitT> serializer = source.getSplitSerializer();
    return new WithText<>(serializer.getVersion()) {
      @Override
      public byte[] serialize(SplitT split) throws IOException {
        return withText(serializer.serialize(split), position("onceproof-read", split.splitId(), offsetOf(split)));
      }

      @Override
      public SplitT deserialize(int version, byte[] bytes) throws IOException {
        return serializer.deserialize(version, inner(bytes));
      }
    };
  }

  @Override
  public SimpleVersionedSerializer<State<StateT>> getEnumeratorCheckpointSerializer() {
    SimpleVersionedSerializer<StateT> serializer = source.getEnumeratorCheckpointSerializer();
    return new WithText<>(serializer.getVersion()) {
      @Override
      public byte[] serialize(State<StateT> state) throws IOException {
        StringBuilder text = new StringBuilder();
        for (String split : state.waiting()) {
          text.append(split).append(' ').append(position("onceproof-waiting", split, 0)).append('\n');
        }
        return withText(serializer.serialize(state.state()), text.toString());
      }

      @Override
      public State<StateT> deserialize(int version, byte[] bytes) throws IOException {
        List<String> waiting = new ArrayList<>();
        text(bytes).lines().forEach(line -> waiting.add(line.split(" ")[0]));
        return new State<>(serializer.deserialize(version, inner(bytes)), waiting);
      }
    };
  }

  private static long offsetOf(SourceSplit split) {
    try {
      // Before the first record it is a word for the earliest offset, below 0.
      return Math.max(0L, (Long) split.getClass().getMethod("getStartingOffset").invoke(split));
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("a split of Kafka has no offset", error);
    }
  }

  /** A serializer that puts text behind what another one writes. */
  abstract static class WithText<T> implements SimpleVersionedSerializer<T> {
    private final int version;

    WithText(int version) {
      this.version = version;
    }

    @Override
    public int getVersion() {
      return version;
    }

    static byte[] withText(byte[] inner, String text) throws IOException {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      DataOutputStream output = new DataOutputStream(bytes);
      output.writeInt(inner.length);
      output.write(inner);
      output.write(text.getBytes(StandardCharsets.UTF_8));
      return bytes.toByteArray();
    }

    static byte[] inner(byte[] bytes) throws IOException {
      DataInputStream input = new DataInputStream(new ByteArrayInputStream(bytes));
      return input.readNBytes(input.readInt());
    }

    static String text(byte[] bytes) throws IOException {
      DataInputStream input = new DataInputStream(new ByteArrayInputStream(bytes));
      input.skipBytes(input.readInt());
      return new String(input.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  private final class Enumerator implements SplitEnumerator<SplitT, State<StateT>> {
    private final SplitEnumerator<SplitT, StateT> enumerator;
    private final Set<String> waiting;

    Enumerator(SplitEnumerator<SplitT, StateT> enumerator, Set<String> waiting) {
      this.enumerator = enumerator;
      this.waiting = waiting;
    }

    @Override
    public void start() {
      enumerator.start();
    }

    @Override
    public void handleSplitRequest(int subtask, String host) {
      enumerator.handleSplitRequest(subtask, host);
    }

    @Override
    public void addSplitsBack(List<SplitT> splits, int subtask) {
      splits.forEach(each -> waiting.add(each.splitId()));
      enumerator.addSplitsBack(splits, subtask);
    }

    @Override
    public void addReader(int subtask) {
      enumerator.addReader(subtask);
    }

    @Override
    public State<StateT> snapshotState(long checkpoint) throws Exception {
      log.note("triggered", -1, -1, checkpoint);
      return new State<>(enumerator.snapshotState(checkpoint), new ArrayList<>(waiting));
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) throws Exception {
      log.keep(checkpoint);
      log.note("completed", -1, -1, checkpoint);
      enumerator.notifyCheckpointComplete(checkpoint);
    }

    @Override
    public void notifyCheckpointAborted(long checkpoint) throws Exception {
      enumerator.notifyCheckpointAborted(checkpoint);
    }

    @Override
    public void handleSourceEvent(int subtask, SourceEvent event) {
      enumerator.handleSourceEvent(subtask, event);
    }

    @Override
    public void close() throws IOException {
      enumerator.close();
    }
  }

  private final class Reader implements SourceReader<byte[], SplitT> {
    private final SourceReader<byte[], SplitT> reader;
    private final SourceReaderContext context;
    private final int attempt;
    private Output output;
    private boolean hasEnded;

    Reader(SourceReader<byte[], SplitT> reader, SourceReaderContext context) {
      this.reader = reader;
      this.context = context;
      this.attempt =
          Integer.parseInt(context.metricGroup().getAllVariables().getOrDefault("<task_attempt_num>", "0"));
    }

    private void note(String kind, long checkpoint) {
      log.note(kind, context.getIndexOfSubtask(), attempt, checkpoint);
    }

    @Override
    public void start() {
      note("restored", 0);
      reader.start();
    }

    @Override
    public InputStatus pollNext(ReaderOutput<byte[]> given) throws Exception {
      if (output == null || output.output != given) {
        output = new Output(given);
      }
      InputStatus status = reader.pollNext(output);
      if (status == InputStatus.END_OF_INPUT && !hasEnded) {
        hasEnded = true;
        note("end_of_data", 0);
      }
      return status;
    }

    @Override
    public List<SplitT> snapshotState(long checkpoint) {
      note("snapshotted", checkpoint);
      return reader.snapshotState(checkpoint);
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
      return reader.isAvailable();
    }

    @Override
    public void addSplits(List<SplitT> splits) {
      reader.addSplits(splits);
    }

    @Override
    public void notifyNoMoreSplits() {
      reader.notifyNoMoreSplits();
    }

    @Override
    public void handleSourceEvents(SourceEvent event) {
      reader.handleSourceEvents(event);
    }

    @Override
    public void pauseOrResumeSplits(Collection<String> paused, Collection<String> resumed) {
      reader.pauseOrResumeSplits(paused, resumed);
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) throws Exception {
      note("notified", checkpoint);
      reader.notifyCheckpointComplete(checkpoint);
    }

    @Override
    public void notifyCheckpointAborted(long checkpoint) throws Exception {
      note("aborted", checkpoint);
      reader.notifyCheckpointAborted(checkpoint);
    }

    @Override
    public void close() throws Exception {
      reader.close();
    }

    /** Takes messages apart, and counts them. */
    private class SplitOutput implements SourceOutput<byte[]> {
      private final SourceOutput<byte[]> split;

      SplitOutput(SourceOutput<byte[]> split) {
        this.split = split;
      }

      @Override
      public void collect(byte[] message) {
        split.collect(Arrays.copyOfRange(message, Long.BYTES, message.length), ByteBuffer.wrap(message).getLong());
        note("element", 0);
      }

      @Override
      public void collect(byte[] message, long timestampOfKafka) {
        collect(message);
      }

      @Override
      public void emitWatermark(Watermark watermark) {
        split.emitWatermark(watermark);
      }

      @Override
      public void markIdle() {
        split.markIdle();
      }

      @Override
      public void markActive() {
        split.markActive();
      }
    }

    private final class Output extends SplitOutput implements ReaderOutput<byte[]> {
      private final ReaderOutput<byte[]> output;

      Output(ReaderOutput<byte[]> output) {
        super(output);
        this.output = output;
      }

      @Override
      public SourceOutput<byte[]> createOutputForSplit(String split) {
        return new SplitOutput(output.createOutputForSplit(split));
      }

      @Override
      public void releaseOutputForSplit(String split) {
        output.releaseOutputForSplit(split);
      }
    }
  }
}
