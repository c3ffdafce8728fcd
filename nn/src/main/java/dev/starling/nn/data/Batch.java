package dev.starling.nn.data;

import dev.starling.nn.RecordType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;

/**
 * Examples side by side, in memory that the loader reuses. The tensors of a batch are closed as soon as the next one is
 * requested or another epoch starts; elements that are needed longer must be copied.
 */
public final class Batch {
    private static final String REVOKED = "the data loader, which uses its memory again after the next batch was "
            + "requested";

    private final EpochPlan plan;
    private final int number;
    private final List<Field> fields;
    private final Tensor[] tensors;

    /** Makes a batch of tensors that were lent, one for each field. */
    Batch(EpochPlan plan, int number, List<Field> fields, Tensor[] tensors) {
        this.plan = plan;
        this.number = number;
        this.fields = fields;
        this.tensors = tensors;
    }

    /** Closes the tensors, whose memory the loader uses again. */
    void revoke() {
        for (Tensor tensor : tensors) {
            tensor.storage().revoke(REVOKED);
        }
    }

    /** Returns the index in the data set of example {@code i} of this batch. */
    public int index(int i) {
        return plan.index(number, i);
    }

    /** Returns the index of the pass over the data, as it was given to {@link DataLoader#epoch}, from 0. */
    public int epoch() {
        return plan.epoch();
    }

    /** Returns the index of this batch in its epoch, from 0. */
    public int number() {
        return number;
    }

    /** Returns the number of examples that this process has in the batch, possibly 0. */
    public int size() {
        return plan.size(number);
    }

    /** Returns the number of examples of the batch on all ranks that share it. */
    public int rows() {
        return plan.rows(number);
    }

    /** Returns a field of all examples, {@code [size, *field]}, on the device to which the loader delivers. */
    public Tensor tensor(int field) {
        return tensors[field];
    }

    /**
     * Returns the field of a name, {@code [size, *field]}.
     *
     * @throws TensorException if there is none
     */
    public Tensor tensor(String name) {
        int position = Field.position(fields, name);
        if (position < 0) {
            throw TensorException.argument("batch", "there is no field " + name + "; the data set has the fields "
                    + Field.list(fields), "name the fields with Dataset.named(..), or use one of these names");
        }
        return tensors[position];
    }

    /** Returns the fields with the names of a record's components, for example the inputs of a model. */
    public <R extends Record> R record(Class<R> type) {
        RecordType<R> components = RecordType.of(type);
        return components.create(components.names().stream().map(this::tensor).toArray(Tensor[]::new));
    }

    /** Returns the first field, which is the input of a layer. */
    public Tensor input() {
        return tensor(0);
    }

    /** Returns the last field, which is the expected result of a layer. */
    public Tensor target() {
        return tensor(tensors.length - 1);
    }
}
