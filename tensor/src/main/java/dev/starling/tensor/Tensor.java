package dev.starling.tensor;

import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Transfer;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.op.View;
import dev.starling.tensor.profile.OperationEvent;
import dev.starling.tensor.spi.Block;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.ref.Reference;
import java.util.Arrays;
import java.util.List;

/**
 * An n-dimensional array: a strided window on device memory that a {@link Scope} owns. Operations return new tensors;
 * views ({@code reshape}, {@code permute}, {@code slice}, ...) share memory. Only ops of {@link Update} change
 * elements.
 *
 * <p>What can be done with a tensor is told in the interfaces that it implements: {@link Arithmetic},
 * {@link Reductions}, {@link Shaping} and {@link Indexing}; neural operations are static methods of {@link Functions},
 * {@link Convolutions}, {@link Pools}, {@link Norms} and {@link Losses}.
 * Every operation passes {@link #apply}. A tensor may be read by several threads at once, and closed by none meanwhile.
 */
public final class Tensor implements Arithmetic, Reductions, Shaping, Indexing, AutoCloseable {
    private static final Tensor[] NONE = {};

    private final Storage storage;
    private final Spec spec;
    private final long[] strides;
    private final long offset;
    private final long id;
    private String name;

    private Tensor(Storage storage, Spec spec, long[] strides, long offset, ThreadState thread) {
        this.storage = storage;
        this.spec = spec;
        this.strides = strides;
        this.offset = offset;
        this.id = thread.nextId++;
    }

    // ---- making ----

    /** Allocates a row-major tensor of undefined content in the current scope: for backends. */
    public static Tensor allocate(Spec spec) {
        return allocate(spec, spec.shape().contiguousStrides());
    }

    /** Allocates a tensor with the given dense strides (in elements), checked, of undefined content: for backends. */
    public static Tensor allocate(Spec spec, long[] strides) {
        if (strides != spec.shape().contiguousStrides()) {
            Storage.require("allocate", spec, strides, 0, spec.bytes());
        }
        ThreadState thread = ThreadState.current();
        Tensor lent = thread.interceptor == null ? null : thread.interceptor.allocate(spec, strides);
        return lent != null ? lent
                : new Tensor(Storage.allocate(spec.device(), spec.bytes(), thread), spec, strides, 0, thread);
    }

    /** Makes a view of this memory: for {@link View} ops. Strides and offset, checked, count elements. */
    public Tensor view(Shape shape, long[] viewStrides, long viewOffset) {
        Spec viewed = spec.with(shape);
        storage.require("view", viewed, viewStrides, viewOffset);
        return new Tensor(storage, viewed, viewStrides, viewOffset, ThreadState.current());
    }

    /**
     * Lends this tensor's memory to one of another type and shape, which scopes do not own and {@link #close} leaves
     * open: it is open as long as this tensor is. For those who plan memory, such as captured programs.
     *
     * @param other on the same device, with no more bytes than this tensor
     * @param otherStrides dense, in elements
     * @throws TensorException if the memory is too small, strides leave it, or this tensor does not begin it
     */
    public Tensor lend(Spec other, long[] otherStrides) {
        if (other.device() != device() || other.bytes() > Math.min(spec.bytes(), storage.bytes()) || offset != 0) {
            throw new TensorException(TensorException.Problem.SHAPE, "lend", List.of(spec, other),
                    "the memory must be of the device, large enough and lent from its beginning",
                    "lend from a larger tensor");
        }
        Storage.require("lend", other, otherStrides, 0, other.bytes());
        address();
        return new Tensor(Storage.lent(storage, other.bytes()), other, otherStrides, 0, ThreadState.current());
    }

    /**
     * Points a tensor made by {@link #lend}, and all its views, at the memory of {@code from}, which must be contiguous
     * and of the same spec.
     */
    public void relend(Tensor from) {
        if (!storage.isLent() || offset != 0 || !spec.equals(from.spec) || !from.isContiguous()) {
            throw new TensorException(TensorException.Problem.ARGUMENT, "relend", List.of(spec, from.spec),
                    "needs a lent tensor and a contiguous one of its spec", "copy the elements");
        }
        storage.lend(from.storage, from.address());
    }

    /**
     * Makes a tensor over memory of the caller, without a copy. The segment must be native (off-heap), writable, and
     * stay alive as long as the tensor is used; what one side writes the other sees.
     */
    public static Tensor wrap(MemorySegment segment, DType dtype, long... shape) {
        Spec spec = new Spec(dtype, Shape.of(shape), Device.cpu());
        if (!segment.isNative() || segment.isReadOnly() || !segment.scope().isAlive()) {
            throw TensorException.argument("wrap", "the segment must be open, writable native memory",
                    "copy it with Tensor.copyOf");
        }
        if (segment.byteSize() < spec.bytes()) {
            throw new TensorException(TensorException.Problem.SHAPE, "wrap", List.of(spec),
                    "needs " + spec.bytes() + " bytes, the segment has " + segment.byteSize(), "give a larger segment");
        }
        Storage storage = Storage.foreign(spec.device(), new Block(segment.address(), segment.byteSize()), segment);
        return new Tensor(storage, spec, spec.shape().contiguousStrides(), 0, ThreadState.current());
    }

    /** Makes a tensor with a copy of the elements in {@code source}, a segment of any kind, on the current device. */
    public static Tensor copyOf(MemorySegment source, DType dtype, long... shape) {
        Spec spec = new Spec(dtype, Shape.of(shape), Device.current());
        if (source.byteSize() != spec.bytes()) {
            throw new TensorException(TensorException.Problem.SHAPE, "copyOf", List.of(spec),
                    "needs " + spec.bytes() + " bytes, got " + source.byteSize(),
                    "give as many elements as the shape has");
        }
        if (!spec.device().backend().hostVisible()) {
            Tensor host = Device.with(Device.cpu(), () -> copyOf(source, dtype, shape));
            return host.to(spec.device());
        }
        Tensor tensor = allocate(spec);
        MemorySegment.copy(source, 0, HostMemory.ALL, tensor.address(), spec.bytes());
        return tensor;
    }

    /** Makes an f32 tensor from its elements in row-major order; no shape means one dimension. */
    public static Tensor of(float[] elements, long... shape) {
        return copyOf(MemorySegment.ofArray(elements), DType.F32, shape.length == 0
                ? new long[] {elements.length} : shape);
    }

    /** Makes an f64 tensor from its elements in row-major order; no shape means one dimension. */
    public static Tensor of(double[] elements, long... shape) {
        return copyOf(MemorySegment.ofArray(elements), DType.F64, shape.length == 0
                ? new long[] {elements.length} : shape);
    }

    /** Makes an i64 tensor from its elements in row-major order; no shape means one dimension. */
    public static Tensor of(long[] elements, long... shape) {
        return copyOf(MemorySegment.ofArray(elements), DType.I64, shape.length == 0
                ? new long[] {elements.length} : shape);
    }

    /** Makes an i32 tensor from its elements in row-major order; no shape means one dimension. */
    public static Tensor of(int[] elements, long... shape) {
        return copyOf(MemorySegment.ofArray(elements), DType.I32, shape.length == 0
                ? new long[] {elements.length} : shape);
    }

    /** Makes a bool tensor from its elements in row-major order; no shape means one dimension. */
    public static Tensor of(boolean[] elements, long... shape) {
        byte[] bytes = new byte[elements.length];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) (elements[i] ? 1 : 0);
        }
        return copyOf(MemorySegment.ofArray(bytes), DType.BOOL, shape.length == 0 ? new long[] {bytes.length} : shape);
    }

    /** Makes an f32 scalar. */
    public static Tensor scalar(double value) {
        return full(DType.F32, value);
    }

    /** Makes a tensor of {@code value}s on the current device. */
    public static Tensor full(DType dtype, double value, long... shape) {
        return Creation.full(new Spec(dtype, Shape.of(shape), Device.current()), value);
    }

    /** Makes an f32 tensor of zeros on the current device. */
    public static Tensor zeros(long... shape) {
        return full(DType.F32, 0, shape);
    }

    /** Makes an f32 tensor of ones on the current device. */
    public static Tensor ones(long... shape) {
        return full(DType.F32, 1, shape);
    }

    // ---- the gate ----

    /**
     * Carries out an operation: checks operands, infers the outputs' specs, runs on the operands' device, and tells the
     * {@link Recorder} in force.
     *
     * @throws TensorException if the operands do not fit, live on different devices, or are closed
     */
    public static Tensor[] apply(Op op, Tensor... inputs) {
        Spec[] inferred = Operands.check(op, inputs);
        OperationEvent event = OperationEvent.isOn() ? OperationEvent.started() : null;
        Tensor[] outputs = switch (op) {
            case View view -> view.views(inputs[0]);
            case Transfer transfer -> new Tensor[] {inputs[0].transfer(inferred[0])};
            default -> (inferred.length == 0 ? inputs[0].spec : inferred[0]).device().backend()
                    .run(op, inputs, inferred);
        };
        if (event != null) {
            event.done(op.name(), outputs.length == 0 ? inputs[0].spec : outputs[0].spec);
        }
        done(op, inputs, outputs);
        return outputs;
    }

    /**
     * Carries out updates of one device in their order, as {@link #apply} would one by one; a GPU does them at once.
     * All are checked before any is carried out. No update may read what another one changes.
     *
     * @param operands of each operation
     * @param guard {@code []} of a floating type on the same device, or {@code null}; where it is infinite or NaN,
     *     nothing is changed, and nobody is told: whoever wants to know reads it. The host need not wait for it
     * @throws TensorException if operands do not fit, live on different devices, or are closed; nothing is changed then
     */
    public static void applyAll(Update[] ops, Tensor[][] operands, Tensor guard) {
        Operands.check(ops, operands, guard);
        if (ops.length == 0) {
            return;
        }
        if (guard != null) {
            guard.tellRead();
        }
        OperationEvent event = OperationEvent.isOn() ? OperationEvent.started() : null;
        operands[0][0].device().backend().updateAll(ops, operands, guard);
        if (event != null) {
            event.done(ops.length + " × " + ops[0].name(), operands[0][0].spec);
        }
        for (int i = 0; i < ops.length; i++) {
            done(ops[i], operands[i], NONE);
        }
        Reference.reachabilityFence(guard);
    }

    private static void done(Op op, Tensor[] inputs, Tensor[] outputs) {
        if (op instanceof Update update) {
            for (int i = 0; i < inputs.length; i++) {
                inputs[i].storage.version += update.changes(i) ? 1 : 0;
            }
        }
        if (Recorder.CURRENT.isBound()) {
            Recorder.CURRENT.get().record(op, inputs, outputs);
        }
        ThreadState thread = ThreadState.current();
        if (thread.interceptor != null) {
            thread.interceptor.ran(op, inputs, outputs);
        }
        Reference.reachabilityFence(inputs);
    }

    /** Carries out an operation of one output; see {@link #apply}. */
    public static Tensor compute(Op op, Tensor... inputs) {
        return apply(op, inputs)[0];
    }

    /** Returns this tensor, which an operation is given, if it is open. */
    Tensor open(Op op) {
        if (storage.isClosed()) {
            throw closed(op.name());
        }
        return this;
    }

    private TensorException closed(String op) {
        return new TensorException(TensorException.Problem.CLOSED, op, List.of(spec),
                "tensor " + (name == null ? "#" + id : name) + " was closed with " + storage.closedBy,
                "move it out with Scope.keep before its scope closes");
    }

    // ---- what it is ----

    /** Returns type, shape and device. */
    public Spec spec() {
        return spec;
    }

    /** Returns the sizes. */
    public Shape shape() {
        return spec.shape();
    }

    /** Returns the element type. */
    public DType dtype() {
        return spec.dtype();
    }

    /** Returns where the elements live. */
    public Device device() {
        return spec.device();
    }

    /** Returns the number of dimensions. */
    public int rank() {
        return spec.shape().rank();
    }

    /** Returns the size of dimension {@code axis}; negative counts from the end. */
    public long size(int axis) {
        return spec.shape().dim(axis);
    }

    /** Returns the number of elements. */
    public long count() {
        return spec.shape().count();
    }

    /** Returns the strides in elements. The array is shared: read it only. */
    public long[] strides() {
        return strides;
    }

    /** Returns where in its memory the first element lies, in elements. */
    public long offset() {
        return offset;
    }

    /** Returns a number that no other tensor of this process has. */
    public long id() {
        return id;
    }

    /**
     * Returns the address of the first element: for backends and zero-copy exchange; valid while the tensor is open.
     */
    public long address() {
        if (storage.isClosed()) {
            throw closed("address");
        }
        return storage.address() + offset * spec.dtype().bytes();
    }

    /** Tells whether the elements lie in row-major order without gaps. */
    public boolean isContiguous() {
        long[] dense = spec.shape().contiguousStrides();
        if (strides == dense) {
            return true;
        }
        for (int i = 0; i < strides.length; i++) {
            if (strides[i] != dense[i] && spec.shape().dim(i) > 1) {
                return spec.shape().count() == 0;
            }
        }
        return true;
    }

    /** Tells whether this tensor's memory was given back. */
    public boolean isClosed() {
        return storage.isClosed();
    }

    /** Tells whether two tensors look at the same memory. */
    public boolean sharesMemoryWith(Tensor other) {
        return storage == other.storage;
    }

    /** Returns how often the memory was changed in place: for recorders that must notice. */
    public int version() {
        return storage.version;
    }

    /** Counts a change in place that did not pass the gate: for those who let a device change memory at one command. */
    public void changed() {
        storage.version++;
    }

    /** Names this tensor for error messages and returns it. */
    public Tensor named(String label) {
        name = label;
        return this;
    }

    /** Returns the name given with {@link #named}, or {@code null}. */
    public String name() {
        return name;
    }

    Storage storage() {
        return storage;
    }

    /**
     * Counts one more holder of the memory, for those who pass tensors on before their scope ends, as a tape does with
     * gradients. Returns how many there are.
     */
    public int hold() {
        return ++storage.holds;
    }

    /** Counts one holder less, and gives the memory back with the last; does nothing where nobody holds. */
    public void drop() {
        if (storage.holds > 0 && --storage.holds == 0) {
            storage.close("the last drop()");
        }
    }

    /** Returns how many holders the memory has. */
    public int holds() {
        return storage.holds;
    }

    /** Forgets the holders: the memory lives until its scope ends. */
    public Tensor unhold() {
        storage.holds = 0;
        return this;
    }

    /** Gives the memory back before the scope does, for this tensor and all its views. */
    @Override
    public void close() {
        storage.close("close()");
    }

    // ---- host access ----

    /** Returns this tensor on another device: itself if it is there already. Gradients flow back. */
    public Tensor to(Device target) {
        return target == spec.device() ? this : compute(new Transfer(target), this);
    }

    private Tensor transfer(Spec target) {
        Tensor source = contiguous();
        Tensor result = allocate(target);
        if (!target.device().backend().hostVisible() && !device().backend().hostVisible()) {
            return source.to(Device.cpu()).transfer(target);
        }
        if (target.device().backend().hostVisible()) {
            device().backend().download(source.address(), result.address(), target.bytes());
        } else {
            target.device().backend().upload(source.address(), result.address(), target.bytes());
        }
        return result;
    }

    /** Returns this tensor where the host can read it, in row-major order: itself if it is so already. */
    Tensor onHost() {
        address();
        tellRead();
        Tensor host = device().backend().hostVisible() ? this : to(Device.cpu());
        return host.contiguous();
    }

    /**
     * Returns the elements' memory without a copy; valid while the tensor is open.
     *
     * @throws TensorException if the tensor is not on the host or not contiguous
     */
    public MemorySegment segment() {
        tellRead();
        if (!isContiguous() || !device().backend().hostVisible()) {
            throw new TensorException(TensorException.Problem.ARGUMENT, "segment", List.of(spec),
                    "the tensor must be contiguous and on the host", "call to(Device.cpu()).contiguous() first");
        }
        return HostMemory.ALL.asSlice(address(), spec.bytes());
    }

    private void tellRead() {
        ThreadState thread = ThreadState.current();
        if (thread.interceptor != null) {
            thread.interceptor.read(this);
        }
    }

    /** Returns the only element as a double. */
    public double item() {
        if (count() != 1) {
            throw new TensorException(TensorException.Problem.SHAPE, "item", List.of(spec),
                    "needs exactly one element", "index or reduce first");
        }
        Tensor host = onHost();
        return HostMemory.getDouble(dtype(), host.address());
    }

    /** Returns the only element as a long. */
    public long itemLong() {
        item();
        return HostMemory.getLong(dtype(), onHost().address());
    }

    /** Returns the elements in row-major order, converted to float. */
    public float[] toFloats() {
        float[] out = new float[Creation.arrayLength("array", count(), Float.BYTES)];
        Tensor host = onHost();
        if (dtype() == DType.F32) {
            MemorySegment.copy(HostMemory.ALL, ValueLayout.JAVA_FLOAT_UNALIGNED, host.address(), out, 0, out.length);
        } else {
            for (int i = 0; i < out.length; i++) {
                out[i] = (float) HostMemory.getDouble(dtype(), host.address() + (long) i * dtype().bytes());
            }
        }
        return out;
    }

    /** Returns the elements in row-major order, converted to double. */
    public double[] toDoubles() {
        double[] out = new double[Creation.arrayLength("array", count(), Double.BYTES)];
        Tensor host = onHost();
        Arrays.setAll(out, i -> HostMemory.getDouble(dtype(), host.address() + (long) i * dtype().bytes()));
        return out;
    }

    /** Returns the elements in row-major order, converted to long. */
    public long[] toLongs() {
        long[] out = new long[Creation.arrayLength("array", count(), Long.BYTES)];
        Tensor host = onHost();
        Arrays.setAll(out, i -> HostMemory.getLong(dtype(), host.address() + (long) i * dtype().bytes()));
        return out;
    }

    /** Prints type, shape and elements, eliding the middle of long dimensions. */
    @Override
    public String toString() {
        return storage.isClosed() ? "closed " + spec : Printer.print(this);
    }
}
