package dev.starling.nn.preprocess;

import dev.starling.nn.Layer;
import dev.starling.nn.data.Dataset;
import dev.starling.nn.data.Table;
import dev.starling.nn.data.TensorDataset;
import dev.starling.tensor.DType;
import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * The first layer of a model of {@linkplain Table tables}: normalises numbers, replaces missing ones by the column's
 * mean, and encodes categories one-hot, with an index for missing and one for unknown values. Means, deviations,
 * vocabularies and the names of classes are buffers: they are adapted to the training data and saved with the weights,
 * so that a loaded model takes rows as they are in the table.
 *
 * <pre>{@code
 * TableEncoder encoder = TableEncoder.builder().numbers("area", "rooms").categories("city", 16).target("price").build()
 *         .adapt(train);
 * Sequential model = Sequential.of(encoder, Linear.of(encoder.width(), 32, random), new Relu(),
 *         Linear.of(32, 1, random), encoder.output());
 * DataLoader data = DataLoader.of(encoder.dataset(train)).shuffle().build();
 * ...
 * Tensor prices = model.forward(encoder.tensor(Table.of(House.class, houses)));
 * }</pre>
 *
 * <p>Between table and layer, a row is f32 {@code [F]}: the numbers as they are, NaN where missing, and the indices of
 * the categories. A number that is no index of a category stands for none: its columns of the result are 0. The layer
 * maps {@code [N, F]} to {@code [N, width]}. It refuses 16-bit inputs, which would round numbers as they are; train
 * such a model in f32.
 *
 * <p>A value has one index, whatever other rows the table has. The training data determine how values are compared: if
 * the column had numbers, as numbers, so that {@code 1.0}, {@code 1} and {@code 01} are one category, and otherwise as
 * {@linkplain Table#text texts}, so that they are three. A {@code boolean} is the text {@code true} or {@code false}.
 *
 * <p>Not safe for use while it is adapted or loaded; otherwise any number of threads may use it.
 */
public final class TableEncoder implements Layer {
    private static final int MAX_ELEMENTS = 1 << 30;
    private static final String NUMBERS = "numbers";
    private static final String TEXTS = "texts";

    private final List<String> numbers;
    private final Normalizer normalizer;
    private final Map<String, CategoryEncoder> categories;
    private final @Nullable String target;
    private final Normalizer targetScale = Normalizer.standard(1);
    /** The number of classes; 0 if the target has numbers. */
    private final int classCount;
    private final Vocabulary classes = new Vocabulary();
    /** The columns as the builder names them. */
    private final List<String> named = new ArrayList<>();
    /**
     * {@code named}, and once adapted for each column of categories, the classes last, what it was in the training
     * data: {@link #NUMBERS} or {@link #TEXTS}. Files that were written without it still load.
     */
    private final Vocabulary columns = new Vocabulary();
    /** The texts of {@code columns} that were last found to be those of this encoder. */
    private volatile @Nullable List<String> same;

    private TableEncoder(Builder builder) {
        numbers = List.copyOf(builder.numbers);
        normalizer = builder.range ? Normalizer.minMax(numbers.size()) : Normalizer.standard(numbers.size());
        categories = new LinkedHashMap<>();
        builder.categories.forEach((column, size) -> categories.put(column, CategoryEncoder.of(size)));
        target = builder.target;
        classCount = builder.classCount;
        if (numbers.isEmpty() && categories.isEmpty()) {
            throw TensorException.argument("table encoder", "there must be a column, got none",
                    "name columns with numbers(..) or categories(..)");
        }
        numbers.forEach(column -> named.add("numbers(\"" + column + "\")"));
        categories.forEach((column, each) -> named.add("categories(\"" + column + "\", " + each.size() + ")"));
        if (target != null) {
            named.add(classCount == 0 ? "target(\"" + target + "\")" : "classes(\"" + target + "\", " + classCount
                    + ")");
        }
        columns.changed(named).run();
    }

    /** Returns a builder without columns. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns the number of columns of the layer's result. */
    public int width() {
        return numbers.size() + categories.values().stream().mapToInt(CategoryEncoder::size).sum();
    }

    /**
     * Adapts the buffers to the training data.
     *
     * @throws TensorException if a column does not exist, has only missing values, texts in place of numbers or numbers
     *     that {@link Normalizer#adapt(Tensor)} refuses, or if there are more classes than the encoder was built for;
     *     the buffers stay as they were
     */
    public TableEncoder adapt(Table table) {
        requireValues(table);
        List<Runnable> changes = new ArrayList<>();
        List<String> learned = new ArrayList<>(named);
        try (Scope scope = Scope.open("table encoder")) {
            changes.add(normalizer.adapted(numbers(table), numbers));
            categories.forEach((column, encoder) -> {
                changes.add(encoder.adapted(texts(table, column)));
                learned.add(table.isNumeric(column) ? NUMBERS : TEXTS);
            });
            if (target != null && classCount == 0) {
                changes.add(targetScale.adapted(Tensor.of(table.numbers(target), table.rows(), 1), List.of(target)));
            } else if (target != null) {
                List<String> names = texts(table, target).stream().filter(Objects::nonNull).map(Objects::requireNonNull)
                        .distinct().sorted().toList();
                if (names.size() > classCount) {
                    throw TensorException.argument("table encoder", "column \"" + target + "\" has the classes " + names
                            + ", more than " + classCount, "build the encoder with classes(\"" + target + "\", "
                            + names.size() + ")");
                }
                changes.add(classes.changed(names));
                learned.add(table.isNumeric(target) ? NUMBERS : TEXTS);
            }
            changes.add(columns.changed(learned));
            changes.forEach(Runnable::run);
        }
        return this;
    }

    private void requireValues(Table table) {
        List<String> all = new ArrayList<>(numbers);
        all.addAll(categories.keySet());
        if (target != null) {
            all.add(target);
        }
        all.removeIf(column -> IntStream.range(0, table.rows()).anyMatch(row -> table.text(column, row) != null));
        if (!all.isEmpty()) {
            throw TensorException.argument("table encoder", "the " + table.rows() + " rows to adapt to have no values "
                    + "in the columns " + all, "correct the names, leave out the columns or read more rows; the table "
                    + "has " + table.columns());
        }
    }

    private static List<@Nullable String> texts(Table table, String column) {
        boolean numeric = table.isNumeric(column);
        List<@Nullable String> texts = new ArrayList<>(table.rows());
        for (int row = 0; row < table.rows(); row++) {
            String text = table.text(column, row);
            boolean truth = "true".equals(text) || "false".equals(text);
            texts.add(numeric && !truth ? table.canonicalText(column, row) : text);
        }
        return texts;
    }

    /**
     * Returns whether equal numbers are one category.
     *
     * @param place of the column among those of categories
     */
    private boolean isByNumber(int place, Table table, String column) {
        List<String> learned = columns.texts();
        int at = named.size() + place;
        // A file that lacks it was written for texts that depended on the table.
        return at < learned.size() ? learned.get(at).equals(NUMBERS) : table.isNumeric(column);
    }

    /** Refuses the buffers of an encoder that has other columns. */
    private void requireSameColumns() {
        List<String> learned = columns.texts();
        if (learned != same) {
            List<String> names = learned.stream().filter(each -> !each.equals(NUMBERS) && !each.equals(TEXTS)).toList();
            if (!names.equals(named)) {
                throw TensorException.argument("table encoder", "the columns must be those of the file that was "
                        + "loaded, " + names + ", got " + named,
                        "build the encoder with the columns of the file, in that order");
            }
            same = learned;
        }
        if (classCount > 0 && classes().size() > classCount) {
            throw TensorException.argument("table encoder", "the file that was loaded has the classes " + classes()
                    + ", more than " + classCount, "build the encoder with classes(\"" + target + "\", "
                    + classes().size() + ")");
        }
    }

    private Tensor numbers(Table table) {
        double[] values = new double[elements(table, numbers.size())];
        for (int i = 0; i < numbers.size(); i++) {
            for (int row = 0; row < table.rows(); row++) {
                values[row * numbers.size() + i] = table.number(numbers.get(i), row);
            }
        }
        return Tensor.of(values, table.rows(), numbers.size());
    }

    /**
     * Returns rows as this layer reads them, {@code [N, F]}, in the current scope. The table needs no target.
     *
     * @throws TensorException if a column does not exist or has texts in place of numbers, or if the encoder is neither
     *     adapted nor loaded
     */
    public Tensor tensor(Table table) {
        if (!normalizer.isAdapted() || categories.values().stream().allMatch(c -> c.vocabulary().isEmpty())
                && numbers.isEmpty()) {
            throw TensorException.argument("table encoder", "it must have statistics of training data, got none",
                    "call adapt(table), or load the model first");
        }
        requireSameColumns();
        List<CategoryEncoder> encoders = List.copyOf(categories.values());
        List<String> names = List.copyOf(categories.keySet());
        boolean[] byNumber = new boolean[names.size()];
        for (int i = 0; i < byNumber.length; i++) {
            byNumber[i] = isByNumber(i, table, names.get(i));
        }
        int width = numbers.size() + categories.size();
        float[] rows = new float[elements(table, width)];
        for (int row = 0; row < table.rows(); row++) {
            int at = row * width;
            for (String column : numbers) {
                rows[at++] = finite(table, column, row, table.number(column, row));
            }
            for (int i = 0; i < names.size(); i++) {
                int index = encoders.get(i).place(table.text(names.get(i), row));
                rows[at++] = index == Vocabulary.UNKNOWN && byNumber[i]
                        ? encoders.get(i).place(table.canonicalText(names.get(i), row)) : index;
            }
        }
        return Tensor.of(rows, table.rows(), width);
    }

    private static int elements(Table table, int width) {
        long count = (long) table.rows() * width;
        if (count > MAX_ELEMENTS) {
            throw TensorException.argument("table encoder", "rows x columns must be at most " + MAX_ELEMENTS + ", got "
                    + count, "divide the table");
        }
        return (int) count;
    }

    private static float finite(Table table, String column, int row, double value) {
        if (Float.isInfinite((float) value)) {
            throw TensorException.argument("table encoder", table.origin(row) + ", column \"" + column + "\": "
                    + value + " is no f32", "correct the value, or leave out the row");
        }
        return (float) value;
    }

    /**
     * Returns the rows of a table and their target as examples: f32 {@code [F]}, and f32 {@code [1]} or an i64 class.
     *
     * @throws TensorException as {@link #tensor} does, if the encoder has no target, or if a target is missing, too
     *     large or no class; the message names the line
     */
    public Dataset dataset(Table table) {
        String column = target;
        if (column == null) {
            throw TensorException.argument("table encoder", "a data set needs a target, got none",
                    "build the encoder with target(..) or classes(..), or use tensor(table)");
        }
        return Scope.detached(() -> TensorDataset.of(tensor(table), targets(table, column)));
    }

    private Tensor targets(Table table, String column) {
        float[] values = new float[table.rows()];
        boolean byNumber = classCount > 0 && isByNumber(categories.size(), table, column);
        for (int row = 0; row < values.length; row++) {
            String text = table.text(column, row);
            if (text != null && byNumber && classes.place(text) < 0) {
                text = table.canonicalText(column, row);
            }
            if (text == null || classCount > 0 && classes.place(text) < 0) {
                throw TensorException.argument("table encoder", table.origin(row) + ", column \"" + column + "\": "
                        + (text == null ? "the target is missing" : "\"" + text + "\" is none of the classes "
                        + classes()), "leave out the row, or adapt the encoder to a table that has all classes");
            }
            values[row] = classCount > 0 ? classes.place(text) : finite(table, column, row, table.number(column, row));
        }
        return classCount > 0 ? Tensor.of(values).to(DType.I64) : Tensor.of(values, values.length, 1);
    }

    /** Returns the names of the classes, sorted; the index of a class is its place. Empty if the target has numbers. */
    public List<String> classes() {
        return classes.texts();
    }

    /**
     * Returns the last layer of a model of a target of numbers, {@code [N, 1]} to the same shape: it converts results
     * with mean 0 and variance 1 to the unit of the target.
     */
    public Layer output() {
        return targetScale.inverse();
    }

    @Override
    public Tensor forward(Tensor x) {
        if (x.rank() != 2 || x.size(1) != numbers.size() + categories.size() || !x.dtype().isFloating()
                || x.dtype().bytes() < 4) {
            throw new TensorException(TensorException.Problem.SHAPE, "table encoder", List.of(x.spec()),
                    "x must be f32 [N, " + (numbers.size() + categories.size()) + "]",
                    "use dataset(table) or tensor(table); train in f32");
        }
        if (columns.hostVisible()) {
            // Not part of a recording.
            Interceptor gate = Interceptor.replace(Interceptor.NONE);
            try {
                requireSameColumns();
            } finally {
                Interceptor.replace(gate);
            }
        }
        List<Tensor> parts = new ArrayList<>();
        if (!numbers.isEmpty()) {
            parts.add(normalizer.apply(x.narrow(1, 0, numbers.size())));
        }
        int at = numbers.size();
        for (CategoryEncoder each : categories.values()) {
            parts.add(each.apply(x.narrow(1, at++, 1).squeeze(1)));
        }
        return Tensor.concat(1, parts.toArray(Tensor[]::new));
    }

    @Override
    public void visit(Visitor visitor) {
        if (!numbers.isEmpty()) {
            visitor.layer("numbers", normalizer);
        }
        int i = 0;
        for (CategoryEncoder each : categories.values()) {
            visitor.layer("category" + i++, each);
        }
        if (target != null && classCount == 0) {
            visitor.layer("target", targetScale);
        } else if (target != null) {
            classes.visit(visitor);
        }
        columns.visit(visitor, "columns_");
    }

    @Override
    public String settings() {
        return "numbers " + numbers + ", categories " + categories.keySet();
    }

    @Override
    public String toString() {
        return tree();
    }

    /** Collects the columns of an encoder. */
    public static final class Builder {
        private final List<String> numbers = new ArrayList<>();
        /** The sizes of encoders by column. */
        private final Map<String, Integer> categories = new LinkedHashMap<>();
        private @Nullable String target;
        private int classCount;
        private boolean range;

        private Builder() {
        }

        /** Adds columns of numbers. */
        public Builder numbers(String... columns) {
            numbers.addAll(List.of(columns));
            return this;
        }

        /** Scales numbers to [0, 1] instead of to mean 0 and variance 1. */
        public Builder minMax() {
            range = true;
            return this;
        }

        /**
         * Adds a column of categories: texts, or numbers such as years that are no quantities.
         *
         * @param size number of columns in the layer's result: one for missing values, one for all unknown ones, and
         *     one for each of the {@code size - 2} most frequent values
         */
        public Builder categories(String column, int size) {
            // Refuses a size that is too small here, and not only in build().
            if (categories.putIfAbsent(column, CategoryEncoder.of(size).size()) != null) {
                throw TensorException.argument("table encoder", "column \"" + column + "\" is among the categories "
                        + "already", "add it once");
            }
            return this;
        }

        /** Sets a column of numbers as the target. */
        public Builder target(String column) {
            target = column;
            classCount = 0;
            return this;
        }

        /** Sets a column with the names of classes as the target. */
        public Builder classes(String column, int count) {
            if (count < 1) {
                throw TensorException.argument("table encoder", "there must be a class, got " + count,
                        "give the number of classes");
            }
            target = column;
            classCount = count;
            return this;
        }

        /** Returns an encoder, which must be adapted or loaded. */
        public TableEncoder build() {
            return new TableEncoder(this);
        }
    }
}
