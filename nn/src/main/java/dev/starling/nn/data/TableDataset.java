package dev.starling.nn.data;

import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeSet;
import java.util.stream.IntStream;

/**
 * Rows of a {@link Table} as they are: the numbers of some columns, f32 {@code [F]}, and a target. If the target's
 * column has numbers, it is f32 {@code [1]}; if it has texts, it is the index of a class, i64. No value may be missing:
 * leave out such rows or columns.
 */
public final class TableDataset implements Dataset {
    private final Column[] inputs;
    private final Column target;
    private final long[] classOf;
    private final List<String> classes;
    private final List<Field> fields;
    private final int size;

    private TableDataset(Table table, List<String> inputs, String target) {
        this.inputs = inputs.stream().map(name -> complete(table, name, table.numeric(name))).toArray(Column[]::new);
        this.target = complete(table, target, table.column(target));
        size = table.rows();
        boolean isClass = !table.isNumeric(target);
        classes = isClass ? List.copyOf(new TreeSet<>(IntStream.range(0, size)
                .mapToObj(row -> Objects.requireNonNull(this.target.text(row))).toList())) : List.of();
        Map<String, Long> places = new HashMap<>();
        classes.forEach(name -> places.put(name, (long) places.size()));
        classOf = isClass ? IntStream.range(0, size).mapToLong(row -> places.get(this.target.text(row))).toArray()
                : new long[0];
        fields = List.of(Field.of(DType.F32, inputs.size()), isClass ? Field.of(DType.I64) : Field.of(DType.F32, 1));
    }

    /**
     * Returns the rows of a table.
     *
     * @throws TensorException if a column does not exist, an input has texts, or a value is missing or too large for
     *     f32; the message names column and line
     */
    public static TableDataset of(Table table, List<String> inputs, String target) {
        return new TableDataset(table, inputs, target);
    }

    private static Column complete(Table table, String name, Column column) {
        for (int row = 0; row < column.size(); row++) {
            if (column instanceof Column.Numbers numbers ? !Float.isFinite((float) numbers.number(row))
                    : column.text(row) == null) {
                throw TensorException.argument("table", table.origin(row) + ", column \"" + name + "\": "
                        + (column.text(row) == null ? "the value is missing" : column.text(row) + " is no f32"),
                        "leave out the row or the column");
            }
        }
        return column;
    }

    /** Returns the classes of a target of texts, sorted; the index of a class is its place. Empty for numbers. */
    public List<String> classes() {
        return classes;
    }

    @Override
    public int size() {
        return size;
    }

    @Override
    public List<Field> fields() {
        return fields;
    }

    @Override
    public void write(int index, Example example) {
        Subset.requireIndex(index, size);
        float[] row = example.floats(0);
        for (int i = 0; i < inputs.length; i++) {
            row[i] = (float) inputs[i].number(index);
        }
        example.put(0, row);
        if (classes.isEmpty()) {
            example.floats(1)[0] = (float) target.number(index);
            example.put(1, example.floats(1));
        } else {
            example.put(1, classOf[index]);
        }
    }
}
