package dev.starling.distributed.ps.config;

import dev.starling.tensor.TensorException;

/** How many steps the workers of a parameter server may be apart. */
public sealed interface Consistency {
    /** The server applies each gradient when it arrives; no worker waits for another. (Recht et al., 2011) */
    record Asynchronous() implements Consistency { }

    /**
     * The server applies each gradient when it arrives, but a worker that is more than {@code bound} steps ahead of the
     * slowest worker waits for it. (Ho et al., 2013)
     *
     * @param bound in steps, 0 or more
     */
    record Stale(int bound) implements Consistency {
        /** Checks that the bound is not negative. */
        public Stale {
            if (bound < 0) {
                throw TensorException.argument("parameter server", "the staleness bound must be >= 0, got " + bound,
                        "pass 0 or more steps");
            }
        }
    }

    /**
     * The server takes one step along the sum of all workers' gradients. It adds them in the order of the workers'
     * numbers, not in the order of arrival, so the same data give the same bits.
     */
    record Synchronous() implements Consistency { }
}
