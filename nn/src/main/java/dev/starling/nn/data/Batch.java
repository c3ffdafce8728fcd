package dev.starling.nn.data;

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
 * Examples side by side, in memory that the loader reuses. A batch is valid until the next one is requested; a tensor
 * that is needed longer must be copied.
 *
 * <p>If the loader delivers to a device whose memory the host cannot access, each batch has memory of its own there. A
 * worker uploads the batch into it while the device computes with earlier batches.
 */
public final class Batch {
    private static final long ALIGNMENT = 64;

    private final List<Field> fields;
    private final MemorySegment[] segments;
    /** The tensors of all fields, for each number of rows that has occurred so far. */
    private Tensor[][] tensors = new Tensor[0][];
    /** Set by {@link #assign}, which precedes every use. */
    @SuppressWarnings("NullAway.Init")
    private EpochPlan plan;
    private int number;
    private int size;
    private int rows;
    /** The batch on the device that it is uploaded to, or {@code null} if it stays on the host. */
    private @Nullable Upload upload;
    /**
     * The failure of the worker that filled this batch, or {@code null}. The worker writes it before it publishes the
     * batch.
     */
    @Nullable LoadException failure;

    /**
     * The batch on a device whose memory the host cannot access.
     *
     * @param device that the batch is uploaded to
     * @param uploader copies it
     * @param buffers one per field, with room for the largest batch
     * @param delivered views of the buffers that match {@link #tensors}
     */
    private record Upload(Device device, Uploader uploader, Tensor[] buffers, Tensor[][] delivered) {
        void close() {
            uploader.close();
            for (Tensor buffer : buffers) {
                buffer.close();
            }
        }
    }

    Batch(List<Field> fields) {
        this.fields = fields;
        segments = new MemorySegment[fields.size()];
    }

    /** Assigns batch {@code newNumber} of an epoch to this slot, to be delivered to {@code target}. */
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
        prepareUpload(target.backend().hostVisible() ? null : target);
    }

    /** Allocates memory on the device if necessary and lends it to the worker that fills the batch. */
    private void prepareUpload(@Nullable Device target) {
        if (upload != null && (upload.device != target || upload.delivered.length != tensors.length)) {
            close();
        }
        if (target == null) {
            return;
        }
        if (upload == null) {
            Tensor[] memory = buffers(target);
            upload = new Upload(target, target.backend().uploader(), memory, new Tensor[tensors.length][]);
        }
        Tensor[] buffers = upload.buffers;
        Tensor[][] delivered = upload.delivered;
        if (delivered[size] == null) {
            delivered[size] = new Tensor[buffers.length];
            Arrays.setAll(delivered[size], i -> buffers[i].storage().view(
                    buffers[i].spec().with(tensors[size][i].shape()), buffers[i].strides(), 0));
        }
        upload.uploader.lend();
    }

    private Tensor[] buffers(Device target) {
        return Scope.detached(() -> {
            Tensor[] buffers = new Tensor[segments.length];
            Arrays.setAll(buffers, i -> Storage.allocate(new Spec(fields.get(i).dtype(),
                    fields.get(i).shape().insert(0, tensors.length - 1), target)));
            return buffers;
        });
    }

    /** Starts the upload if the batch goes to another device. Called by the worker that filled the batch. */
    void send() {
        for (int i = 0; upload != null && i < segments.length; i++) {
            upload.uploader.copy(segments[i].address(), upload.buffers[i].address(), fields.get(i).bytes() * size);
        }
    }

    /** Makes the device wait until the upload is complete. Called by the reader. */
    void receive() {
        if (upload != null) {
            upload.uploader.await();
        }
    }

    /** Frees the memory on the device. Called when no worker fills this batch any more. */
    void close() {
        if (upload != null) {
            upload.close();
            upload = null;
        }
    }

    private void grow(int capacity) {
        tensors = new Tensor[capacity + 1][];
        for (int i = 0; i < segments.length; i++) {
            // Freed when neither loader nor tensor is reachable, so that a late reader sees old data instead of a
            // fault.
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

    /** Returns the number of examples that this process has in the batch, possibly 0. */
    public int size() {
        return size;
    }

    /** Returns the number of examples of the batch on all ranks that share it. */
    public int rows() {
        return rows;
    }

    /** Returns a field of all examples, {@code [size, *field]}, on the device to which the loader delivers. */
    public Tensor tensor(int field) {
        return (upload == null ? tensors : upload.delivered)[size][field];
    }

    /** Returns the first field, which is the input of the model. */
    public Tensor input() {
        return tensor(0);
    }

    /** Returns the last field, which is the expected result of the model. */
    public Tensor target() {
        return tensor(segments.length - 1);
    }
}
