package dev.starling.transport.simulated;

import java.time.Duration;
import java.util.Collections;
import java.util.Set;
import java.util.TreeSet;

/** Something that goes wrong in a simulation, at a time of its own. Processes are told by their names. */
public sealed interface Fault {
    /** Returns when it begins. */
    Duration at();

    /**
     * Nothing gets from some processes to others, for a while; what was sent arrives afterwards.
     *
     * @param bothWays whether nothing comes back either
     */
    record Cut(Duration at, Duration length, Set<String> from, Set<String> to, boolean bothWays) implements Fault {
        /** Copies; in an order that is the same in each JVM, unlike that of {@link Set#copyOf}. */
        public Cut {
            from = Collections.unmodifiableSet(new TreeSet<>(from));
            to = Collections.unmodifiableSet(new TreeSet<>(to));
        }

        @Override
        public String toString() {
            return "at " + at + " cut " + from + (bothWays ? " <-> " : " -> ") + to + " for " + length;
        }
    }

    /** A process stands still for a while, as if stopped by a signal or a long collection of garbage. */
    record Pause(Duration at, Duration length, String process) implements Fault {
        @Override
        public String toString() {
            return "at " + at + " pause " + process + " for " + length;
        }
    }

    /**
     * A process ends without a word, at its so many-th use of the wire after that time; what it had sent last is lost.
     */
    record Crash(Duration at, int operations, String process) implements Fault {
        @Override
        public String toString() {
            return "at " + at + " and " + operations + " operations crash " + process;
        }
    }

    /** The links between two processes break, with what is under way. */
    record Break(Duration at, String first, String second) implements Fault {
        @Override
        public String toString() {
            return "at " + at + " break " + first + " <-> " + second;
        }
    }
}
