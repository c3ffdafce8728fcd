package dev.starling.nn.data;

import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * All examples of a data set in an order, random in every epoch, that distributes each class evenly: every batch has
 * the classes in the proportion of the whole set, but for rounding. The loader must not shuffle. The order depends only
 * on the loader's seed and the epoch.
 */
public final class StratifiedDataset implements Dataset {
    private final Dataset dataset;
    private final int[] classes;
    private final Map<Integer, Integer> counts = new HashMap<>();
    /** The order of the epoch that was read last, or {@code null} before the first. */
    private volatile @Nullable Order last;

    /**
     * The order of an epoch.
     *
     * @param seed of the run
     * @param epoch number of the pass
     * @param indices in this order
     */
    private record Order(long seed, int epoch, int[] indices) { }

    private StratifiedDataset(Dataset dataset, int[] classes) {
        Lengths.requireFixed("stratified data", dataset);
        Subset.requireClasses(dataset, classes);
        if (dataset.isSequential()) {
            throw TensorException.argument("stratified data", "the data set must be readable in any order, got one "
                    + "that is read in order", "collect it in a ListDataset");
        }
        this.dataset = dataset;
        this.classes = classes.clone();
        for (int each : classes) {
            counts.merge(each, 1, Integer::sum);
        }
    }

    /**
     * Returns the examples in such an order.
     *
     * @param classes the class of each example
     */
    public static StratifiedDataset of(Dataset dataset, int[] classes) {
        return new StratifiedDataset(dataset, classes);
    }

    /** Places each class, in random order, at equal distances from a random start between 0 and 1. */
    private int[] order(long seed, int epoch) {
        Generator random = Generator.seeded(seed).split(epoch);
        long[] shuffled = random.order(classes.length);
        long[] starts = Generator.seeded(seed).split(~epoch).order(counts.size());
        List<Integer> names = counts.keySet().stream().sorted().toList();
        Map<Integer, Integer> placed = new HashMap<>();
        double[] places = new double[classes.length];
        for (long index : shuffled) {
            int each = classes[(int) index];
            double start = (starts[names.indexOf(each)] + 0.5) / starts.length;
            places[(int) index] = (placed.merge(each, 1, Integer::sum) - 1 + start) / counts.getOrDefault(each, 1);
        }
        return IntStream.range(0, places.length).boxed().sorted(Comparator.comparingDouble(i -> places[i]))
                .mapToInt(i -> i).toArray();
    }

    @Override
    public int size() {
        return dataset.size();
    }

    @Override
    public List<Field> fields() {
        return dataset.fields();
    }

    @Override
    public void write(int index, Example target) throws Exception {
        Order order = last;
        if (order == null || order.seed != target.seed() || order.epoch != target.epoch()) {
            order = new Order(target.seed(), target.epoch(), order(target.seed(), target.epoch()));
            last = order;
        }
        dataset.write(order.indices[Subset.requireIndex(index, size())], target);
    }
}
