package dev.starling.distributed;

/**
 * How many members of the last epoch a group needs to begin another one. It decides which side continues when the
 * network divides a group. Members that are known to have ended do not count; silent ones do, because they may continue
 * on the other side.
 */
public sealed interface Quorum {
    /**
     * More than half of the members, or exactly half if the lowest rank is among them: at most one side continues. The
     * default.
     */
    record Majority() implements Quorum { }

    /**
     * A fixed number of members. At most one side continues if it is more than half of all.
     *
     * @param count of members that a new epoch needs
     */
    record Members(int count) implements Quorum {
        /** Checks that the number is positive. */
        public Members {
            if (count < 1) {
                throw new IllegalArgumentException("a quorum must have 1 or more members, got " + count);
            }
        }
    }

    /**
     * Any number of members: every side continues, each as a group of its own. No member takes the place of a lost
     * coordinator, because two could.
     */
    record None() implements Quorum { }

    /**
     * Returns the quorum that a text describes: {@code majority}, {@code none}, or a number of members.
     *
     * @throws IllegalArgumentException if the text has another form
     */
    static Quorum parse(String text) {
        return switch (text) {
            case "majority" -> new Majority();
            case "none" -> new None();
            default -> {
                try {
                    yield new Members(Integer.parseInt(text));
                } catch (NumberFormatException e) {
                    throw new IllegalArgumentException("a quorum is majority, none or a number of members, got " + text,
                            e);
                }
            }
        };
    }
}
