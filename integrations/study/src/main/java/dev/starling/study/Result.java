package dev.starling.study;

import java.util.ArrayList;
import java.util.List;

/**
 * All that a study has found, as its JSON file holds it.
 *
 * @param date on which the first row was measured, {@code yyyy-mm-dd}
 * @param machine on which
 * @param goal accuracy that counts, 0 to 1
 * @param recipe how every row trained
 * @param rows what came of each setup
 * @param messages how long messages took; empty if they were not measured
 */
record Result(String date, Machine machine, double goal, Recipe recipe, List<Outcome> rows, List<Message> messages) {
    /**
     * What came of a setup.
     *
     * @param setup the row
     * @param runs those that ended well
     * @param problem why there are fewer than requested, or {@code null}
     */
    record Outcome(Setup setup, List<Run> runs, String problem) { }

    /**
     * How long a message took there and back.
     *
     * @param implementation of the messages, and its way of transport
     * @param bytes in each direction
     * @param microseconds there and back, median
     */
    record Message(String implementation, long bytes, double microseconds) { }

    /** Returns what is known of a setup; without runs if that is nothing. */
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

    /** Tells whether rows of {@code other} can stand beside rows of this. */
    boolean isComparable(Result other) {
        return goal == other.goal && recipe.equals(other.recipe) && machine.equals(other.machine);
    }
}
