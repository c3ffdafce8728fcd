package dev.starling.nn.data;

import dev.starling.nn.RecordType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** A data set whose examples are rows of tensors. */
public final class TensorDataset implements Dataset {
    private final Tensor[] tensors;
    private final List<Field> fields;

    private TensorDataset(Tensor[] tensors, List<String> names) {
        this.tensors = tensors;
        fields = IntStream.range(0, tensors.length).mapToObj(i -> new Field(names.isEmpty() ? "" : names.get(i),
                tensors[i].dtype(), tensors[i].shape().without(0))).toList();
    }

    /**
     * Returns a data set whose fields are the components of records, with their names: for example of a model's inputs
     * and of its targets, which are named as its results. The tensors must stay open and unchanged.
     *
     * @param first a record of tensors {@code [N, ..]}, contiguous and on the host
     * @param more further records; no two components may have the same name
     */
    public static TensorDataset of(Record first, Record... more) {
        List<Tensor> all = new ArrayList<>();
        List<String> names = new ArrayList<>();
        for (Record each : Stream.concat(Stream.of(first), Stream.of(more)).toList()) {
            RecordType<Record> type = RecordType.of(each);
            all.addAll(List.of(type.tensors(each)));
            names.addAll(type.names());
        }
        if (new HashSet<>(names).size() < names.size()) {
            throw TensorException.argument("dataset", "fields need different names, got " + names,
                    "leave out the component that occurs twice");
        }
        Tensor[] tensors = all.toArray(Tensor[]::new);
        requireRows(tensors);
        return new TensorDataset(tensors, names);
    }

    /**
     * Returns a data set whose example {@code i} is row {@code i} of each tensor. The tensors must stay open and
     * unchanged.
     *
     * @param tensors {@code [N, ..]} each, contiguous and on the host
     */
    public static TensorDataset of(Tensor... tensors) {
        if (tensors.length == 0) {
            throw TensorException.argument("dataset", "needs at least one tensor, got none",
                    "pass the inputs and the targets");
        }
        requireRows(tensors);
        return new TensorDataset(tensors.clone(), List.of());
    }

    private static void requireRows(Tensor[] tensors) {
        for (Tensor t : tensors) {
            if (t.rank() == 0 || t.size(0) != tensors[0].size(0) || !t.isContiguous()) {
                throw new TensorException(TensorException.Problem.SHAPE, "dataset",
                        List.of(tensors[0].spec(), t.spec()),
                        "tensors must be contiguous and have the same number of rows",
                        "call contiguous(), or narrow() the longer tensor");
            }
            if (t.size(0) > Integer.MAX_VALUE) {
                throw new TensorException(TensorException.Problem.SHAPE, "dataset", List.of(t.spec()),
                        "a data set has fewer than 2^31 rows", "reshape the tensor so that a row has more elements");
            }
        }
    }

    @Override
    public int size() {
        return Math.toIntExact(tensors[0].size(0));
    }

    @Override
    public List<Field> fields() {
        return fields;
    }

    @Override
    public void write(int index, Example target) {
        for (int i = 0; i < tensors.length; i++) {
            write(index, i, i, target);
        }
    }

    /** Writes field {@code own} of an example into field {@code field} of {@code target}. */
    void write(int index, int own, int field, Example target) {
        long bytes = fields.get(own).bytes();
        MemorySegment.copy(tensors[own].readOnlySegment(), index * bytes, target.segment(field), target.offset(field),
                bytes);
    }
}
