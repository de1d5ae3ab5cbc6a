package onceproof;

import java.io.IOException;
import java.io.Serializable;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;

/**
 * What a source tells the harness: a log of what it passes, and links to the metadata of complete checkpoints.
 *
 * <p>A log has one line for each thing that happens; a line is one write.
 */
public final class SourceLog implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String name;
  private final String log;
  private final String checkpoints;
  private final String kept;

  /**
   * @param name of the vertex
   * @param log the file to which lines are appended
   * @param checkpoints the folder of the job's checkpoints
   * @param kept the folder in which metadata stay
   */
  public SourceLog(String name, String log, String checkpoints, String kept) {
    this.name = name;
    this.log = log;
    this.checkpoints = checkpoints;
    this.kept = kept;
  }

  void note(String kind, int subtask, int attempt, long checkpoint) {
    String line =
        String.format(
            "{\"kind\": \"%s\", \"source\": \"%s\", \"subtask\": %d, \"attempt\": %d, \"pid\": %d, \"checkpoint\": %d}%n",
            kind, URLEncoder.encode(name, StandardCharsets.UTF_8), subtask, attempt, ProcessHandle.current().pid(), checkpoint);
    try {
      Files.write(
          Paths.get(log),
          line.getBytes(StandardCharsets.UTF_8),
          StandardOpenOption.CREATE,
          StandardOpenOption.APPEND);
    } catch (IOException error) {
      throw new IllegalStateException(log + ": cannot be written", error);
    }
  }

  /** Links the metadata of a checkpoint into the folder in which they stay, because Flink deletes them. */
  void keep(long checkpoint) {
    Path target = Paths.get(kept, "chk-" + checkpoint);
    try (DirectoryStream<Path> jobs = Files.newDirectoryStream(Paths.get(checkpoints))) {
      for (Path job : jobs) {
        try {
          Files.createLink(target, job.resolve("chk-" + checkpoint).resolve("_metadata"));
        } catch (NoSuchFileException | FileAlreadyExistsException another) {
          // Of another start of the job, or another source was first.
          continue;
        }
      }
    } catch (IOException error) {
      throw new IllegalStateException(target + ": cannot be linked", error);
    }
  }

  /** Returns how far a split has been read, as text that is found in the metadata of a checkpoint. */
  static String position(String state, int place, long offset, long checkpoint, String split) {
    return "[" + state + " " + place + " " + offset + " " + checkpoint + " "
        + URLEncoder.encode(split, StandardCharsets.UTF_8) + "]";
  }
}
