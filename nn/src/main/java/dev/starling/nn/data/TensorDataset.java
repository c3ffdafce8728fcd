package dev.starling.nn.data;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;

/** A data set whose examples are rows of tensors. */
public final class TensorDataset implements Dataset {
    private final Tensor[] tensors;
    private final List<Field> fields;

    private TensorDataset(Tensor[] tensors) {
        this.tensors = tensors;
        fields = Arrays.stream(tensors).map(t -> new Field(t.dtype(), t.shape().without(0))).toList();
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
        for (Tensor t : tensors) {
            if (t.rank() == 0 || t.size(0) != tensors[0].size(0) || !t.isContiguous()) {
                throw new TensorException(TensorException.Problem.SHAPE, "dataset",
                        List.of(tensors[0].spec(), t.spec()),
                        "tensors must be contiguous and have the same number of rows",
                        "call contiguous(), or narrow() the longer tensor");
            }
        }
        return new TensorDataset(tensors.clone());
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
            long bytes = fields.get(i).bytes();
            MemorySegment.copy(tensors[i].segment(), index * bytes, target.segment(i), target.offset(i), bytes);
        }
    }
}
