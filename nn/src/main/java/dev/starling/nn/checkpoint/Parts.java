package dev.starling.nn.checkpoint;

import java.util.List;
import java.util.Optional;

/** Parts of a checkpoint that other processes write while training goes on. May be asked by any thread. */
public interface Parts {
    /** No parts. */
    Parts NONE = () -> Optional.of(List.of());

    /**
     * Waits until all are on the disk.
     *
     * @return all parts, by number; or nothing if they were given up for a reason that says nothing about the
     *     directory, such as that a process was lost: then this checkpoint does not come to be, and the run goes on
     * @throws CheckpointException if one cannot be written
     */
    Optional<List<Part>> await();

    /** Returns a number that grows while parts are being written: who waits for them is patient with that. */
    default long progress() {
        return 0;
    }
}
