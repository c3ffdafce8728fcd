package dev.starling.nn.checkpoint;

import java.util.List;
import java.util.Optional;

/** Parts of a checkpoint that other processes write while training continues. Safe for use by any thread. */
public interface Parts {
    /** A checkpoint without parts. */
    Parts NONE = () -> Optional.of(List.of());

    /**
     * Waits until all parts are on disk.
     *
     * @return all parts by number, or an empty result if they were abandoned for a reason unrelated to the directory,
     *     such as a lost process; then this checkpoint is not completed and the run continues
     * @throws CheckpointException if a part cannot be written
     */
    Optional<List<Part>> await();

    /**
     * Returns a number that grows while parts are being written. A caller that waits extends its timeout as long as it
     * grows.
     */
    default long progress() {
        return 0;
    }
}
