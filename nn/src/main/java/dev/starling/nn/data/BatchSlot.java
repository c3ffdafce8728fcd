package dev.starling.nn.data;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.spi.Uploader;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A place in the loader's ring: the memory of one batch, which is lent to the reader as a {@link Batch} and used again
 * for a later one.
 *
 * <p>If the loader delivers to a device whose memory the host cannot access, each slot has memory of its own there. A
 * worker uploads the batch into it while the device computes with earlier batches.
 */
final class BatchSlot implements Rows {
    private static final long ALIGNMENT = 64;

    private final List<Field> fields;
    private final Lengths lengths;
    private final MemorySegment[] segments;
    /** The memory of each field on the host, as bytes. */
    private final Tensor[] memory;
    /** The number of rows that there is memory for. */
    private int capacity;
    /** The types and shapes of all fields on the device, for each number of rows that has occurred so far. */
    private Spec[][] specs = new Spec[0][];
    private Device device = Device.cpu();
    /** Set by {@link #assign}, which precedes every use. */
    @SuppressWarnings("NullAway.Init")
    private EpochPlan plan;
    private int number;
    private int size;
    /** The length of the rows of fields that vary. */
    private int length;
    /** The batch on the device that it is uploaded to, or {@code null} if it stays on the host. */
    private @Nullable Upload upload;
    /**
     * The failure of {@link #assign} or of the worker that filled this batch, or {@code null}. It is written before the
     * batch is published to its next user.
     */
    @Nullable LoadException failure;
    /** Whether the batch has no reader any more. Its worker then ends after the current example. */
    volatile boolean discarded;

    /**
     * The batch on a device whose memory the host cannot access.
     *
     * @param device that the batch is uploaded to
     * @param uploader copies it
     * @param buffers one per field, with room for the largest batch
     * @param capacity number of rows of that batch
     */
    private record Upload(Device device, Uploader uploader, Tensor[] buffers, int capacity) {
        void close() {
            uploader.close();
            for (Tensor buffer : buffers) {
                buffer.close();
            }
        }
    }

    BatchSlot(List<Field> fields, Lengths lengths) {
        this.fields = fields;
        this.lengths = lengths;
        segments = new MemorySegment[fields.size()];
        memory = new Tensor[segments.length];
    }

    /** Assigns batch {@code newNumber} of an epoch to this slot, to be delivered to {@code target}. */
    void assign(EpochPlan newPlan, int newNumber, Device target) {
        discarded = false;
        plan = newPlan;
        number = newNumber;
        size = newPlan.size(newNumber);
        failure = null;
        if (size > capacity || memory.length > 0 && memory[0] == null) {
            grow(Math.min(newPlan.batchSize(), size + size / 4));
        }
        int before = length;
        try {
            length = lengths.ofBatch(newPlan, newNumber);
        } catch (RuntimeException e) {
            failure = new LoadException("the length of an example of batch " + (newNumber + 1) + " is not known: "
                    + e.getMessage(), -1, e);
        }
        if (device != target || specs.length <= size || length != before) {
            specs = new Spec[capacity + 1][];
            device = target;
        }
        prepareUpload(target.backend().hostVisible() ? null : target);
    }

    /** Allocates memory on the device if necessary and lends it to the worker that fills the batch. */
    private void prepareUpload(@Nullable Device target) {
        if (upload != null && (upload.device != target || upload.capacity != capacity)) {
            close();
        }
        if (target == null) {
            return;
        }
        if (upload == null) {
            Tensor[] buffers = buffers(target);
            upload = new Upload(target, target.backend().uploader(), buffers, capacity);
        }
        upload.uploader.lend();
    }

    private Tensor[] buffers(Device target) {
        return Scope.detached(() -> {
            Tensor[] buffers = new Tensor[segments.length];
            Arrays.setAll(buffers, i -> Storage.allocate(new Spec(fields.get(i).dtype(),
                    fields.get(i).shape().insert(0, capacity), target)));
            return buffers;
        });
    }

    /** Starts the upload if the batch goes to another device. Called by the worker that filled the batch. */
    void send() {
        for (int i = 0; upload != null && i < segments.length; i++) {
            long bytes = fields.get(i).bytes(length) * size;
            upload.uploader.copy(segments[i].address(), upload.buffers[i].address(), bytes);
        }
    }

    /**
     * Makes the device wait until the upload is complete, and lends the batch to the reader. The only objects that are
     * allocated are the handles of batch and tensors, so that a handle that is kept too long can be recognised.
     */
    Batch lend() {
        if (upload != null) {
            upload.uploader.await();
        }
        Tensor[] from = upload == null ? memory : upload.buffers;
        Tensor[] lent = new Tensor[from.length];
        Spec[] each = specs();
        for (int i = 0; i < lent.length; i++) {
            lent[i] = from[i].storage().lend(each[i], each[i].shape().sharedStrides());
        }
        return new Batch(plan, number, fields, lent);
    }

    private Spec[] specs() {
        if (specs[size] == null) {
            Device at = upload == null ? Device.cpu() : upload.device;
            specs[size] = fields.stream().map(f -> new Spec(f.dtype(), f.shape(length).insert(0, size), at))
                    .toArray(Spec[]::new);
        }
        return specs[size];
    }

    /** Frees the memory on the device. Called when no worker fills this batch any more. */
    void close() {
        if (upload != null) {
            upload.close();
            upload = null;
        }
    }

    private void grow(int rows) {
        for (int i = 0; i < segments.length; i++) {
            // Freed when neither loader nor tensor is reachable, so that a late reader sees old data instead of a
            // fault.
            segments[i] = Arena.ofAuto().allocate(Math.max(1, fields.get(i).bytes() * rows), ALIGNMENT);
            memory[i] = Tensor.wrap(segments[i], DType.U8, segments[i].byteSize());
        }
        capacity = rows;
        specs = new Spec[rows + 1][];
    }

    @Override
    public MemorySegment segment(int field) {
        return segments[field];
    }

    /** Returns the index in the data set of example {@code i}. */
    int index(int i) {
        return plan.index(number, i);
    }

    /** Returns the number of the pass over the data. */
    @Override
    public int epoch() {
        return plan.epoch();
    }

    /** Returns the number of the batch in its epoch. */
    int number() {
        return number;
    }

    /** Returns the length of the rows of fields that vary. */
    @Override
    public int length() {
        return length;
    }

    /** Returns the number of examples in the data set. */
    int total() {
        return plan.total();
    }

    /** Returns the number of examples that this process has in the batch. */
    int size() {
        return size;
    }
}
