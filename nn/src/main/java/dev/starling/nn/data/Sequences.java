package dev.starling.nn.data;

import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.stream.Stream;

/**
 * A data set of sequences of different lengths in memory. A batch is as long as its longest sequence; shorter ones are
 * padded.
 *
 * <pre>{@code
 * Dataset texts = Sequences.of("tokens", tokens).mask("mask").and("kind", kinds);
 * DataLoader loader = DataLoader.of(texts).batchSize(32).shuffle().byLength().build();
 * }</pre>
 *
 * <p>Immutable. The arrays and tensors must stay unchanged, and the tensors open.
 */
public final class Sequences implements Dataset {
    private final List<long[]> first;
    private final List<Column> columns;
    private final List<Field> fields;

    /** Writes one field of an example. */
    private interface Column {
        void write(int index, int field, Example target);
    }

    private Sequences(List<long[]> first, List<Column> columns, List<Field> fields) {
        this.first = first;
        this.columns = columns;
        this.fields = fields;
    }

    /** Returns a data set with one field, i64 {@code [N, length]}, padded with 0. */
    public static Sequences of(String name, List<long[]> sequences) {
        return new Sequences(sequences, List.of(), List.of()).and(name, sequences, 0);
    }

    /**
     * Returns this data set with a further field, i64 {@code [N, length]}, for example a target for each token.
     *
     * @param sequences as many and as long as those of the first field
     * @param padding what fills shorter rows, for example a class that the loss ignores
     */
    public Sequences and(String name, List<long[]> sequences, long padding) {
        requireRows(name, sequences.size());
        int longest = 1;
        for (int i = 0; i < first.size(); i++) {
            longest = Math.max(longest, first.get(i).length);
            if (sequences.get(i).length != first.get(i).length) {
                throw TensorException.argument("sequences", "sequence " + i + " of " + name + " has "
                        + sequences.get(i).length + " elements, but that of " + fields.getFirst().name() + " has "
                        + first.get(i).length, "give all sequences of an example one length");
            }
        }
        return with((index, field, target) -> target.put(field, sequences.get(index)),
                Field.padded(name, DType.I64, padding, longest));
    }

    /**
     * Returns this data set with a further field whose rows have one shape, for example a class for each sequence.
     *
     * @param rows {@code [N, ..]}, contiguous and on the host
     */
    public Sequences and(String name, Tensor rows) {
        TensorDataset one = TensorDataset.of(rows);
        requireRows(name, one.size());
        return with((index, field, target) -> one.write(index, 0, field, target), one.fields().getFirst().named(name));
    }

    /** Returns this data set with the mask of the sequences: bool {@code [N, length]}, false where they are padded. */
    public Sequences mask(String name) {
        return with((index, field, target) -> { }, Field.mask(name, fields.getFirst().shape().dim(0)));
    }

    private Sequences with(Column column, Field field) {
        if (Field.position(fields, field.name()) >= 0) {
            throw TensorException.argument("sequences", "there is a field " + field.name() + " already",
                    "choose another name");
        }
        return new Sequences(first, Stream.concat(columns.stream(), Stream.of(column)).toList(),
                Stream.concat(fields.stream(), Stream.of(field)).toList());
    }

    private void requireRows(String name, int rows) {
        if (rows != first.size()) {
            throw TensorException.argument("sequences", name + " has " + rows + " rows, but there are " + first.size()
                    + " sequences", "give each sequence one row");
        }
    }

    @Override
    public int size() {
        return first.size();
    }

    @Override
    public List<Field> fields() {
        return fields;
    }

    @Override
    public int length(int index) {
        return first.get(Subset.requireIndex(index, size())).length;
    }

    @Override
    public void write(int index, Example target) {
        Subset.requireIndex(index, size());
        for (int i = 0; i < columns.size(); i++) {
            columns.get(i).write(index, i, target);
        }
    }
}
