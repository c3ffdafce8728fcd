package dev.starling.transport.simulated;

import java.time.Duration;
import java.util.Collections;
import java.util.Set;
import java.util.TreeSet;

/** A fault in a simulation, which begins at a given time. Processes are identified by name. */
public sealed interface Fault {
    /** Returns when the fault begins. */
    Duration at();

    /**
     * For a while nothing arrives from some processes at others; messages sent meanwhile arrive afterwards.
     *
     * @param bothWays whether the opposite direction is cut too
     */
    record Cut(Duration at, Duration length, Set<String> from, Set<String> to, boolean bothWays) implements Fault {
        /** Copies the sets in sorted order, which, unlike that of {@link Set#copyOf}, is the same in each JVM. */
        public Cut {
            from = Collections.unmodifiableSet(new TreeSet<>(from));
            to = Collections.unmodifiableSet(new TreeSet<>(to));
        }

        @Override
        public String toString() {
            return "at " + at + " cut " + from + (bothWays ? " <-> " : " -> ") + to + " for " + length;
        }
    }

    /** A process stops for a while, as if by a signal or a long garbage collection. */
    record Pause(Duration at, Duration length, String process) implements Fault {
        @Override
        public String toString() {
            return "at " + at + " pause " + process + " for " + length;
        }
    }

    /**
     * A process ends without a goodbye, {@code operations} uses of its wires after the given time; its last messages
     * are lost.
     */
    record Crash(Duration at, int operations, String process) implements Fault {
        @Override
        public String toString() {
            return "at " + at + " and " + operations + " operations crash " + process;
        }
    }

    /** The links between two processes break, and messages in flight are lost. */
    record Break(Duration at, String first, String second) implements Fault {
        @Override
        public String toString() {
            return "at " + at + " break " + first + " <-> " + second;
        }
    }
}
