package dev.starling.nn.search;

import dev.starling.nn.data.Dataset;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.train.Metric;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.Threads;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Looks for hyper-parameters: each trial trains one model on some examples and is measured on others. The same seed
 * gives the same trials with the same results, however many run side by side.
 *
 * <pre>{@code
 * SearchResult result = Search.of(ModelDescription.of(Mlp.class, Map.of()), Loss::crossEntropy)
 *         .over("sizes", "2,8,2", "2,32,2").over(Search.RATE, "0.001", "0.01").epochs(9).halving(3)
 *         .metric(Metric::accuracy).keep(TrialStore.of(Path.of("trials"))).run(train, heldOut, 2);
 * System.out.println(result.table());
 * }</pre>
 */
public final class Search {
    /** The setting that is the greatest learning rate of the one-cycle schedule; 0.001 by default. */
    public static final String RATE = "rate";
    /** The setting that is the number of examples in a step; 32 by default. */
    public static final String BATCH = "batch";
    /** The setting that names the optimiser; {@code adam} by default. All other settings are the model's. */
    public static final String OPTIMIZER = "optimizer";

    private static final int MAX_TRIALS = 1_000_000;

    private final ModelDescription model;
    private final Recipe<Loss> loss;
    private final Map<String, List<String>> choices = new LinkedHashMap<>();
    private @Nullable Recipe<Metric> metric;
    private Consumer<Trial> listener = _ -> { };
    private @Nullable TrialStore store;
    private int epochs = 1;
    private int samples;
    private int factor;
    private long seed;

    private Search(ModelDescription model, Recipe<Loss> loss) {
        this.model = model;
        this.loss = loss;
    }

    /**
     * Makes a loss or a metric where it is used, which may be another process: a lambda or a method reference such as
     * {@code Loss::crossEntropy} is enough; captured values must be serialisable.
     *
     * @param <T> what is made
     */
    @FunctionalInterface
    public interface Recipe<T> extends Serializable {
        /** Makes one. */
        T make();
    }

    /** Makes trials somewhere. */
    @FunctionalInterface
    public interface Runner {
        /**
         * Makes trials, keeps the result of each, and waits for all.
         *
         * @param ended receives each result, in any order, one at a time
         */
        void run(List<Trial.Plan> plans, Consumer<Trial> ended);
    }

    /**
     * Begins a search.
     *
     * @param model with the settings that all trials share
     */
    public static Search of(ModelDescription model, Recipe<Loss> loss) {
        return new Search(model, loss);
    }

    /** Adds a setting and the values to try. By default all combinations are tried. */
    public Search over(String setting, String... values) {
        require(values.length > 0, "the setting " + setting + " needs values");
        choices.put(setting, List.of(values));
        return this;
    }

    /** Tries so many combinations, drawn from the seed without repetition. */
    public Search random(int combinations) {
        require(combinations > 0, "combinations must be positive, got " + combinations);
        samples = combinations;
        return this;
    }

    /**
     * Tries all for few epochs, the best of {@code factor} for {@code factor} times as many, and so on up to the whole
     * number; each round begins anew. (Jamieson and Talwalkar, 2016)
     */
    public Search halving(int keepOneOf) {
        require(keepOneOf > 1, "the factor must be above 1, got " + keepOneOf);
        factor = keepOneOf;
        return this;
    }

    /** Sets the passes over the examples; the default is 1. */
    public Search epochs(int count) {
        require(count > 0, "epochs must be positive, got " + count);
        epochs = count;
        return this;
    }

    /** Sets a metric, which is measured along with the loss; trials are compared by the loss. */
    public Search metric(Recipe<Metric> measured) {
        metric = measured;
        return this;
    }

    /** Sets what combinations, weights and order are drawn from; the default is 0. */
    public Search seed(long value) {
        seed = value;
        return this;
    }

    /**
     * Keeps results, and takes those that are there: a search that was stopped makes only the trials that are missing.
     * A store belongs to one loss and, if the search runs in this process, to one set of examples. A trial that failed
     * is kept as well: when its cause is mended, delete its file, which has a line that begins with {@code problem=}.
     */
    public Search keep(TrialStore results) {
        store = results;
        return this;
    }

    /** Sets what receives each trial at its end, and those whose results were kept. Its exception ends the search. */
    public Search listener(Consumer<Trial> receiver) {
        listener = receiver;
        return this;
    }

    /** Returns how a trial is trained. */
    public TrialTraining training() {
        return new TrialTraining(model.factory(), model.settings(), loss, metric, seed);
    }

    /**
     * Makes all trials in this process and waits for them.
     *
     * @param sideBySide trials at a time, which share this thread's kernel threads
     */
    public SearchResult run(Dataset train, Dataset heldOut, int sideBySide) {
        require(sideBySide > 0, "trials side by side must be positive, got " + sideBySide);
        require(train.size() > 0 && heldOut.size() > 0, "both parts need examples, got " + train.size() + " and "
                + heldOut.size());
        String data = train.size() + " " + heldOut.size() + " " + train.fields();
        int threads = Math.max(1, Threads.count() / sideBySide);
        return run(store, data, (plans, ended) -> training().run(plans, train, heldOut, data, sideBySide, threads,
                store, () -> { }, ended));
    }

    /**
     * Makes all trials by a runner.
     *
     * @param kept results that are there, or {@code null}
     * @param data what tells the examples from others; part of the names of kept results
     */
    public SearchResult run(@Nullable TrialStore kept, String data, Runner runner) {
        List<Trial> all = new ArrayList<>();
        int[] computed = {0};
        Map<Integer, Map<String, String>> left = combinations();
        for (int round = rounds(left.size()); round >= 0; round--) {
            int now = Math.max(1, epochs / (int) Math.pow(Math.max(1, factor), round));
            List<Trial> trials = new ArrayList<>();
            List<Trial.Plan> missing = new ArrayList<>();
            left.forEach((number, settings) -> {
                Trial.Plan plan = new Trial.Plan(number, settings, now);
                Trial known = kept == null ? null : TrialFiles.get(kept, training().name(plan, data), plan);
                if (known == null) {
                    missing.add(plan);
                } else {
                    trials.add(known);
                    listener.accept(known);
                }
            });
            if (!missing.isEmpty()) {
                if (kept != null) {
                    TrialFiles.requireWritable(kept);
                }
                computed[0] += missing.size();
                runner.run(missing, trial -> {
                    trials.add(trial);
                    listener.accept(trial);
                });
            }
            all.addAll(trials);
            left = best(trials, round == 0 ? trials.size() : Math.max(1, trials.size() / Math.max(1, factor)));
        }
        return new SearchResult(all, computed[0]);
    }

    /** Returns how often the number of trials is divided. */
    private int rounds(int trials) {
        int rounds = 0;
        long divisor = 1;
        while (factor > 1 && divisor * factor <= Math.min(trials, epochs)) {
            divisor *= factor;
            rounds++;
        }
        return rounds;
    }

    private static Map<Integer, Map<String, String>> best(List<Trial> trials, int count) {
        Map<Integer, Map<String, String>> kept = new LinkedHashMap<>();
        trials.stream().sorted(Comparator.comparingDouble(Trial::loss).thenComparingInt(Trial::number)).limit(count)
                .sorted(Comparator.comparingInt(Trial::number)).forEach(t -> kept.put(t.number(), t.settings()));
        return kept;
    }

    /** Returns the combinations to try, by number; of a large grid only those that are drawn are made. */
    private Map<Integer, Map<String, String>> combinations() {
        long all = 1;
        for (List<String> values : choices.values()) {
            require(all <= Long.MAX_VALUE / values.size(), "the values of all settings have too many combinations");
            all *= values.size();
        }
        long count = samples > 0 ? Math.min(samples, all) : all;
        require(count <= MAX_TRIALS, "the values of all settings have " + all + " combinations, a search tries up to "
                + MAX_TRIALS + "; draw some with random(n)");
        Set<Long> chosen = new LinkedHashSet<>();
        SplittableRandom random = new SplittableRandom(seed);
        // Floyd's algorithm: each set of places is equally likely, and each draw gives one. (Bentley, 1987)
        for (long last = all - count; last < all; last++) {
            long place = samples > 0 ? random.nextLong(last + 1) : last;
            chosen.add(chosen.contains(place) ? last : place);
        }
        Map<Integer, Map<String, String>> numbered = new LinkedHashMap<>();
        chosen.forEach(place -> numbered.put(numbered.size(), combination(place)));
        return numbered;
    }

    /** Returns a combination of the grid, in which the values of the last setting change fastest. */
    private Map<String, String> combination(long place) {
        Map<String, String> settings = new LinkedHashMap<>();
        choices.keySet().forEach(name -> settings.put(name, ""));
        long rest = place;
        for (Map.Entry<String, List<String>> choice : new ArrayList<>(choices.entrySet()).reversed()) {
            List<String> values = choice.getValue();
            settings.put(choice.getKey(), values.get((int) (rest % values.size())));
            rest /= values.size();
        }
        return settings;
    }

    static void require(boolean holds, String relation) {
        if (!holds) {
            throw TensorException.argument("search", relation, "change it");
        }
    }
}
