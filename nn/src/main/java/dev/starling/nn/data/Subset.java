package dev.starling.nn.data;

import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;

/**
 * Some examples of a data set, and divisions of a data set into such parts. Random decisions of the data set depend on
 * the index of an example there, as without the subset.
 */
public final class Subset implements Dataset {
    private final Dataset dataset;
    private final int[] indices;

    /**
     * One of the divisions of a cross-validation.
     *
     * @param train the examples to train on
     * @param heldOut the others, which measure
     */
    public record Fold(Dataset train, Dataset heldOut) { }

    private Subset(Dataset dataset, int[] indices) {
        this.dataset = dataset;
        this.indices = indices;
    }

    /** Returns examples in the order of {@code indices}, which may name one several times. */
    public static Subset of(Dataset dataset, int... indices) {
        for (int i = 0; i < indices.length; i++) {
            if (indices[i] < 0 || indices[i] >= dataset.size() || dataset.isSequential() && i > 0
                    && indices[i] <= indices[i - 1]) {
                throw new TensorException(TensorException.Problem.INDEX, "subset", List.of(), "index " + indices[i]
                        + " at place " + i + " must be below " + dataset.size() + (dataset.isSequential()
                        ? " and above the one before it, because the data set is read in order" : ""),
                        "correct the indices");
            }
        }
        return new Subset(dataset, indices.clone());
    }

    /**
     * Divides a data set at random, for example into 80 % to train and 20 % to measure with {@code split(data, 7, 0.8,
     * 0.2)}.
     *
     * @param seed determines the division
     * @param shares of the examples; their sum must be at most 1
     */
    public static List<Subset> split(Dataset dataset, long seed, double... shares) {
        int[] order = order(dataset.size(), seed);
        return Splits.bounds(order.length, shares).stream().map(part -> of(dataset, Arrays.copyOfRange(order, part[0],
                part[1]))).toList();
    }

    /** Divides a data set at random into parts in which each class has the same share; see {@link #stratified(int[],
     * long, double...)}. */
    public static List<Subset> split(Dataset dataset, int[] classes, long seed, double... shares) {
        requireClasses(dataset, classes);
        return stratified(classes, seed, shares).stream().map(part -> of(dataset, part)).toList();
    }

    /**
     * Divides indices at random into parts in which each class has the same share, rounded up or down. Rounding evens
     * out over the classes, so that the parts have their shares of all indices even if no class has many.
     *
     * @param classes the class of each index
     * @param seed determines the division
     * @param shares of the indices; their sum must be at most 1
     * @return the indices of each part, ascending
     */
    public static List<int[]> stratified(int[] classes, long seed, double... shares) {
        List<IntStream.Builder> parts = Arrays.stream(shares).mapToObj(share -> IntStream.builder()).toList();
        double[] all = Arrays.copyOf(shares, shares.length + 1);
        all[shares.length] = Splits.rest(shares);
        double[] lacking = new double[all.length];
        for (int[] members : members(classes, seed)) {
            int[] sizes = Splits.sizes(members.length, lacking, all);
            int from = 0;
            for (int i = 0; i < shares.length; i++) {
                Arrays.stream(members, from, from + sizes[i]).forEach(parts.get(i));
                from += sizes[i];
            }
        }
        return parts.stream().map(part -> part.build().sorted().toArray()).toList();
    }

    /**
     * Divides a data set at random for a cross-validation: in each fold another part of the examples measures.
     *
     * @param folds number of divisions, at least 2
     * @param seed determines the division
     */
    public static List<Fold> kFold(Dataset dataset, int folds, long seed) {
        return kFold(dataset, new int[dataset.size()], folds, seed);
    }

    /**
     * Divides a data set as {@link #kFold(Dataset, int, long)} does, but so that each class has the same share in all
     * folds, but for rounding.
     *
     * @param classes the class of each example
     */
    public static List<Fold> kFold(Dataset dataset, int[] classes, int folds, long seed) {
        requireClasses(dataset, classes);
        if (folds < 2 || folds > dataset.size()) {
            throw TensorException.argument("k-fold", "there must be 2 folds to as many as the " + dataset.size()
                    + " examples, got " + folds, "use for example 5 folds");
        }
        int[] foldOf = new int[dataset.size()];
        int next = 0;
        for (int[] members : members(classes, seed)) {
            for (int index : members) {
                foldOf[index] = next++ % folds;
            }
        }
        List<Fold> all = new ArrayList<>();
        for (int fold = 0; fold < folds; fold++) {
            int held = fold;
            all.add(new Fold(of(dataset, IntStream.range(0, foldOf.length).filter(i -> foldOf[i] != held).toArray()),
                    of(dataset, IntStream.range(0, foldOf.length).filter(i -> foldOf[i] == held).toArray())));
        }
        return all;
    }

    /** Returns the indices of each class, in random order. */
    private static List<int[]> members(int[] classes, long seed) {
        Map<Integer, IntStream.Builder> members = new TreeMap<>();
        for (int index : order(classes.length, seed)) {
            members.computeIfAbsent(classes[index], c -> IntStream.builder()).add(index);
        }
        return members.values().stream().map(each -> each.build().toArray()).toList();
    }

    private static int[] order(int size, long seed) {
        return Arrays.stream(Generator.seeded(seed).order(size)).mapToInt(i -> (int) i).toArray();
    }

    static void requireClasses(Dataset dataset, int[] classes) {
        if (classes.length != dataset.size()) {
            throw TensorException.argument("classes", "each of the " + dataset.size() + " examples must have a class, "
                    + "got " + classes.length, "pass the class of each example");
        }
    }

    @Override
    public int size() {
        return indices.length;
    }

    @Override
    public List<Field> fields() {
        return dataset.fields();
    }

    @Override
    public boolean isSequential() {
        return dataset.isSequential();
    }

    @Override
    public int length(int index) {
        return dataset.length(indices[checked(index)]);
    }

    @Override
    public void write(int index, Example target) throws Exception {
        dataset.write(indices[checked(index)], target);
    }

    private int checked(int index) {
        return requireIndex(index, indices.length);
    }

    /** Returns the index of an example. */
    static int requireIndex(int index, int size) {
        if (index < 0 || index >= size) {
            throw new TensorException(TensorException.Problem.INDEX, "dataset", List.of(), "there is no example "
                    + index + " of " + size, "use 0 to size() - 1");
        }
        return index;
    }
}
