package dev.starling.distributed.ps.store;

import dev.starling.distributed.encoding.RecordCodec;
import java.nio.file.Path;
import java.util.List;

/**
 * What worker 0 makes a server do with its rows.
 *
 * @param id number of the job, by which a server recognises a repeated request
 */
public record RowRequest(long id, Action action) {
    public static final RecordCodec<RowRequest> CODEC = RecordCodec.of(RowRequest.class);

    /** What a server is to do. */
    public sealed interface Action { }

    /** Take a cut of all rows and write it. */
    public record Save(Path file, long step) implements Action { }

    /** Read the rows of a checkpoint; there is at least one part. */
    public record Restore(List<Source> parts) implements Action { }

    /** Only report the state. */
    public record Query() implements Action { }

    /** A part of a checkpoint, with its checksum from the manifest. */
    public record Source(Path path, String checksum) { }
}
