package dev.starling.nn.search;

import java.util.Comparator;
import java.util.List;
import java.util.Locale;

/** All trials of a search. */
public final class SearchResult {
    private final List<Trial> trials;
    private final int computed;

    SearchResult(List<Trial> trials, int computed) {
        this.trials = trials.stream().sorted(Comparator.comparing((Trial t) -> t.problem() != null)
                .thenComparing(Comparator.comparingInt(Trial::epochs).reversed()).thenComparingDouble(Trial::loss)
                .thenComparingInt(Trial::number)).toList();
        this.computed = computed;
    }

    /** Returns all trials: those that were trained longest first, of these the one of least loss; failed ones last. */
    public List<Trial> trials() {
        return trials;
    }

    /** Returns how many trials this run made; the results of the others were kept from earlier ones. */
    public int computed() {
        return computed;
    }

    /**
     * Returns the trial of least loss among those that were trained longest without failing; if all trials failed, one
     * that has a problem.
     */
    public Trial best() {
        return trials.getFirst();
    }

    /** Returns the trials as a table to print. */
    public String table() {
        StringBuilder text = new StringBuilder(String.format(Locale.ROOT, "%5s  %6s  %9s  %8s  %7s  %s%n", "trial",
                "epochs", "loss", "metric", "seconds", "settings"));
        for (Trial t : trials) {
            text.append(String.format(Locale.ROOT, "%5d  %6d  %9.4f  %8s  %7.1f  %s%n", t.number(), t.epochs(),
                    t.loss(), Double.isNaN(t.metric()) ? "" : String.format(Locale.ROOT, "%.4f", t.metric()),
                    t.seconds(), t.problem() == null ? t.settings() : t.settings() + ": " + t.problem()));
        }
        return text.toString();
    }
}
