package dev.starling.spark;

import java.io.Serializable;

/** The strategy by which the workers of a run train together. */
public sealed interface Strategy extends Serializable {
    /**
     * All-reduce: each step uses the sum of the gradients of all workers, which have the same weights. The batch size
     * is that of all workers together.
     */
    record Ring() implements Strategy {
        private static final long serialVersionUID = 1L;
    }

    /**
     * Parameter servers in the last tasks of the stage.
     *
     * @param servers number of tasks that are servers
     * @param staleness number of steps that a worker may be ahead of the slowest: 0 is synchronous, -1 has no bound
     */
    record Servers(int servers, int staleness) implements Strategy {
        private static final long serialVersionUID = 1L;

        /** Checks the numbers. */
        public Servers {
            if (servers < 1 || staleness < -1) {
                throw new SparkJobException("servers >= 1 and staleness >= -1 must hold, got " + servers + " and "
                        + staleness + "; change them");
            }
        }

        @Override
        public int serverTasks() {
            return servers;
        }

        @Override
        public boolean isSynchronous() {
            return staleness == 0;
        }
    }

    /**
     * Each worker publishes its weights to one peer after another and mixes in the weights that it receives; no worker
     * waits.
     *
     * @param period steps between publications; 0 for one after each pass over the worker's partition
     */
    record Gossip(int period) implements Strategy {
        private static final long serialVersionUID = 1L;

        /** Checks the number. */
        public Gossip {
            if (period < 0) {
                throw new SparkJobException("a period of 0 steps or more must hold, got " + period + "; change it");
            }
        }

        @Override
        public boolean isSynchronous() {
            return false;
        }
    }

    /** Returns the number of tasks that are servers and do not train. */
    default int serverTasks() {
        return 0;
    }

    /** Returns whether all workers take the same steps, so that the batch size is that of all together. */
    default boolean isSynchronous() {
        return true;
    }

    /** All-reduce. */
    static Strategy ring() {
        return new Ring();
    }

    /** Parameter servers; no worker waits for another. */
    static Strategy asynchronousServers(int servers) {
        return new Servers(servers, -1);
    }

    /** Parameter servers; a worker is at most {@code staleness} steps ahead of the slowest; 0 is synchronous. */
    static Strategy servers(int servers, int staleness) {
        return new Servers(servers, staleness);
    }

    /** Gossip, with publications after every fourth step. */
    static Strategy gossip() {
        return new Gossip(4);
    }

    /** Gossip, with publications after every {@code period} steps. */
    static Strategy gossip(int period) {
        return new Gossip(period);
    }

    /** Gossip, with a publication after each pass over the worker's partition. */
    static Strategy gossipAfterEachPass() {
        return new Gossip(0);
    }
}
