package dev.starling.study;

import java.util.ArrayList;
import java.util.List;

/**
 * The results of a study, as saved in its JSON file.
 *
 * @param date on which the first row was measured, {@code yyyy-mm-dd}
 * @param machine on which
 * @param goal accuracy to reach, 0 to 1
 * @param recipe the configuration of all rows
 * @param rows the outcome of each setup
 * @param messages times of messages; empty if they were not measured
 */
record Result(String date, Machine machine, double goal, Recipe recipe, List<Outcome> rows, List<Message> messages) {
    /** Refuses what JSON of other content gives. */
    Result {
        if (machine == null || recipe == null || rows == null || messages == null) {
            throw new IllegalArgumentException("a result must have machine, recipe, rows and messages");
        }
    }

    /**
     * The outcome of a setup.
     *
     * @param setup the row
     * @param runs the successful runs
     * @param problem why there are fewer than requested, or {@code null}
     */
    record Outcome(Setup setup, List<Run> runs, String problem) { }

    /**
     * The round-trip time of a message.
     *
     * @param implementation library and transport
     * @param bytes in each direction
     * @param microseconds median of the round-trip time
     */
    record Message(String implementation, long bytes, double microseconds) { }

    /** Returns the outcome of a setup; without runs if it was not measured. */
    Outcome outcome(Setup setup) {
        return rows.stream().filter(o -> o.setup == setup).findFirst().orElse(new Outcome(setup, List.of(), null));
    }

    /** Returns this with another outcome of its setup, in the order of setups. */
    Result with(Outcome outcome) {
        List<Outcome> all = new ArrayList<>(rows);
        all.removeIf(o -> o.setup == outcome.setup);
        all.add(outcome);
        all.sort((a, b) -> a.setup.compareTo(b.setup));
        return new Result(date, machine, goal, recipe, List.copyOf(all), messages);
    }

    Result with(List<Message> measured) {
        return new Result(date, machine, goal, recipe, rows, List.copyOf(measured));
    }

    /** Returns whether rows of {@code other} were measured under the same conditions as rows of this. */
    boolean isComparable(Result other) {
        return goal == other.goal && recipe.equals(other.recipe) && machine.equals(other.machine);
    }
}
