package dev.starling.nn.data;

import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.spi.Uploader;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;

/**
 * Examples side by side, in memory that the loader uses again: valid until the next batch is asked for. A tensor that
 * is needed longer is copied.
 *
 * <p>Where the loader delivers to a device whose memory the host does not see, each batch has its own memory there,
 * into which its maker uploads it while others are computed with.
 */
public final class Batch {
    private static final long ALIGNMENT = 64;

    private final List<Field> fields;
    private final MemorySegment[] segments;
    /** For each number of rows that was needed so far the tensors of all fields. */
    private Tensor[][] tensors = new Tensor[0][];
    private EpochPlan plan;
    private int number;
    private int size;
    private int rows;
    /** Where it is delivered to, or {@code null} if it stays with the host. */
    private Device device;
    private Uploader uploader;
    /** On the device: fields of as many rows as there is room for, and what {@link #tensors} has on the host. */
    private Tensor[] rooms;
    private Tensor[][] delivered;
    /** What went wrong while this batch was made; written by the worker before it publishes the batch. */
    LoadException failure;

    Batch(List<Field> fields) {
        this.fields = fields;
        segments = new MemorySegment[fields.size()];
    }

    /** Makes this slot stand for batch {@code newNumber} of an epoch, to be delivered to a device. */
    void assign(EpochPlan newPlan, int newNumber, Device target) {
        plan = newPlan;
        number = newNumber;
        size = newPlan.size(newNumber);
        rows = newPlan.rows(newNumber);
        failure = null;
        if (size >= tensors.length) {
            grow(Math.min(newPlan.batchSize(), size + size / 4));
        }
        if (tensors[size] == null) {
            tensors[size] = new Tensor[segments.length];
            for (int i = 0; i < segments.length; i++) {
                Field field = fields.get(i);
                tensors[size][i] = Tensor.wrap(segments[i], field.dtype(), field.shape().insert(0, size).dims());
            }
        }
        direct(target.backend().hostVisible() ? null : target);
    }

    /** Makes sure of memory on the device, and lends it to whoever makes the batch. */
    private void direct(Device target) {
        if (target != device || target != null && delivered.length != tensors.length) {
            close();
            device = target;
            if (target != null) {
                uploader = target.backend().uploader();
                rooms = new Tensor[segments.length];
                delivered = new Tensor[tensors.length][];
                Scope.detached(() -> {
                    Arrays.setAll(rooms, i -> Tensor.allocate(new Spec(fields.get(i).dtype(),
                            fields.get(i).shape().insert(0, tensors.length - 1), target)));
                    return null;
                });
            }
        }
        if (target != null) {
            if (delivered[size] == null) {
                delivered[size] = new Tensor[rooms.length];
                Arrays.setAll(delivered[size], i -> rooms[i].view(tensors[size][i].shape(), rooms[i].strides(), 0));
            }
            uploader.lend();
        }
    }

    /** Begins to upload what was made, if it is to be delivered elsewhere; called by whoever made it. */
    void send() {
        for (int i = 0; device != null && i < segments.length; i++) {
            uploader.copy(segments[i].address(), rooms[i].address(), fields.get(i).bytes() * size);
        }
    }

    /** Lets the device read what was sent; called by the reader. */
    void receive() {
        if (device != null) {
            uploader.await();
        }
    }

    /** Gives the memory on the device back; called when nobody makes this batch any more. */
    void close() {
        if (device != null) {
            uploader.close();
            for (Tensor room : rooms) {
                room.close();
            }
            device = null;
        }
    }

    private void grow(int capacity) {
        tensors = new Tensor[capacity + 1][];
        for (int i = 0; i < segments.length; i++) {
            // Freed when neither loader nor tensor is reachable, so that a late reader finds old data, not a fault.
            segments[i] = Arena.ofAuto().allocate(Math.max(1, fields.get(i).bytes() * capacity), ALIGNMENT);
        }
    }

    MemorySegment segment(int field) {
        return segments[field];
    }

    /** Returns the index in the data set of example {@code i} of this batch. */
    public int index(int i) {
        return plan.index(number, i);
    }

    /** Returns the number of the pass over the data. */
    public int epoch() {
        return plan.epoch();
    }

    /** Returns the number of this batch in its epoch. */
    public int number() {
        return number;
    }

    /** Returns the number of examples; 0 if none of them are this process's. */
    public int size() {
        return size;
    }

    /** Returns the number of examples of the batch on all ranks that share it. */
    public int rows() {
        return rows;
    }

    /** Returns a field of all examples, {@code [size, *field]}, where the loader delivers. */
    public Tensor tensor(int field) {
        return (device == null ? tensors : delivered)[size][field];
    }

    /** Returns the first field: what the model is given. */
    public Tensor input() {
        return tensor(0);
    }

    /** Returns the last field: what the model should make of it. */
    public Tensor target() {
        return tensor(segments.length - 1);
    }
}
