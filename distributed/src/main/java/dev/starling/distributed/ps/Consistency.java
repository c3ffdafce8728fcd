package dev.starling.distributed.ps;

import dev.starling.tensor.TensorException;

/** How far the workers of a parameter server may be apart. */
public sealed interface Consistency {
    /** Each gradient is applied when it comes; nobody waits for anybody. (Recht et al., 2011) */
    record Asynchronous() implements Consistency { }

    /**
     * Each gradient is applied when it comes, but a worker that is more than {@code bound} steps ahead of the slowest
     * waits for it. (Ho et al., 2013)
     *
     * @param bound in steps, 0 or more
     */
    record Stale(int bound) implements Consistency {
        /** Checks. */
        public Stale {
            if (bound < 0) {
                throw TensorException.argument("parameter server", "the bound of staleness must be >= 0, got " + bound,
                        "change it");
            }
        }
    }

    /**
     * The sum of the gradients of all workers makes one step. They are added in the order of ranks, whatever order they
     * come in, so that the same data give the same bits.
     */
    record Synchronous() implements Consistency { }
}
