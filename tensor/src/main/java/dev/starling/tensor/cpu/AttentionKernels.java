package dev.starling.tensor.cpu;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.onednn.ElementType;
import dev.starling.tensor.cpu.onednn.OneDnn;
import dev.starling.tensor.cpu.rows.AttentionRows;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.op.Where;
import dev.starling.tensor.spi.Strides;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Kernels of {@link Attention} in f32; 16-bit operands are widened first. Queries, keys and values are read by their
 * strides, and results get the layouts of queries, keys and values, so that heads are neither gathered nor scattered.
 */
final class AttentionKernels {
    private AttentionKernels() {
    }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor @Nullable [] run(Attention op, Tensor[] inputs, Spec[] outputs) {
        return run(op, inputs, outputs, RowLoops.FASTEST.attention());
    }

    static Tensor @Nullable [] run(Attention op, Tensor[] inputs, Spec[] outputs, AttentionRows rows) {
        if (inputs[0].dtype() == DType.F64 || !OneDnn.supports(ElementType.F32)) {
            return null;
        }
        boolean forward = op instanceof Attention.ScaledDotProduct;
        for (int i = 0; i < inputs.length; i++) {
            if (inputs[i].count() == 0) {
                return null;
            }
        }
        int masked = forward ? 3 : 6;
        Tensor[] in = new Tensor[masked];
        Tensor mask = masked < inputs.length ? additive(inputs[masked], inputs[forward ? 1 : 2].size(-2)) : null;
        for (int i = 0; i < masked; i++) {
            in[i] = i == 5 ? Layout.dense(inputs[i]) : readable(inputs[i]);
        }
        Tensor[] results = forward
                ? new Tensor[] {like(in[0], outputs[0].with(DType.F32)), Storage.allocate(outputs[1])}
                : gradients(in[1], in[2], in[3], outputs);
        AttentionPass pass = forward ? new AttentionPass(op, in[0], in[1], in[2], mask, rows)
                : new AttentionPass(op, in[1], in[2], in[3], mask, rows);
        Runnable work = forward ? pass.forward(results[0], results[1])
                : pass.backward(in[0], in[4], in[5], results);
        work.run();
        for (int i = 0; i < masked; i++) {
            Layout.release(in[i], inputs[i]);
        }
        if (mask != null) {
            Layout.release(mask, inputs[masked]);
        }
        for (int i = 0; i < results.length; i++) {
            results[i] = converted(results[i], outputs[i]);
        }
        return results;
    }

    /** Prepares what {@link #run} does; {@code null} if there is no kernel, or a tensor has to be copied. */
    static @Nullable Runnable prepare(Attention op, Tensor[] in, Tensor[] results) {
        boolean forward = op instanceof Attention.ScaledDotProduct;
        int masked = forward ? 3 : 6;
        boolean fits = OneDnn.supports(ElementType.F32)
                && (in.length == masked || isAdditive(in[masked], in[forward ? 1 : 2].size(-2)));
        for (int i = 0; fits && i < in.length; i++) {
            fits = in[i].count() > 0 && (i >= masked || (i == 5 ? in[i].isContiguous() : isReadable(in[i])));
        }
        for (int i = 0; fits && i < results.length; i++) {
            fits = results[i].dtype() == DType.F32;
        }
        if (!fits) {
            return null;
        }
        Tensor mask = in.length == masked ? null : in[masked];
        AttentionRows rows = RowLoops.FASTEST.attention();
        return forward ? new AttentionPass(op, in[0], in[1], in[2], mask, rows).forward(results[0], results[1])
                : new AttentionPass(op, in[1], in[2], in[3], mask, rows).backward(in[0], in[4], in[5], results);
    }

    /** Allocates the gradients: if the operands are the parts of one projection, as the same parts of one tensor. */
    private static Tensor[] gradients(Tensor q, Tensor k, Tensor v, Spec[] outputs) {
        long row = q.stride(q.rank() - 2);
        boolean parts = isPart(q, q, 0, outputs[0]) && isPart(k, q, q.size(1) * q.size(3), outputs[1])
                && isPart(v, q, q.size(1) * q.size(3) + k.size(1) * k.size(3), outputs[2])
                && v.offset() + v.size(1) * v.size(3) == q.offset() + row;
        if (!parts) {
            return new Tensor[] {like(q, outputs[0].with(DType.F32)), like(k, outputs[1].with(DType.F32)),
                like(v, outputs[2].with(DType.F32))};
        }
        Storage all = Storage.allocate(outputs[0].with(Shape.of(q.size(0), q.size(2), row))).storage();
        return new Tensor[] {all.view(outputs[0], q.sharedStrides(), 0),
            all.view(outputs[1], k.sharedStrides(), k.offset() - q.offset()),
            all.view(outputs[2], v.sharedStrides(), v.offset() - q.offset())};
    }

    /**
     * Returns whether {@code x [N, heads, L, E]} lies in rows {@code [N, L, ..]} of the memory of {@code first}, from
     * element {@code from} of a row on, and its gradient has its shape.
     */
    private static boolean isPart(Tensor x, Tensor first, long from, Spec gradient) {
        long[] strides = x.sharedStrides();
        return x.rank() == 4 && x.storage() == first.storage() && x.offset() == first.offset() + from
                && strides[3] == 1 && strides[1] == x.size(3) && strides[2] == first.stride(2)
                && strides[0] == x.size(2) * strides[2] && x.size(2) == first.size(2) && x.spec().equals(gradient);
    }

    /** Returns an f32 tensor whose rows are contiguous: {@code x} or a copy. */
    private static Tensor readable(Tensor x) {
        return isReadable(x) ? x : assigned(x, x.spec().with(DType.F32));
    }

    private static boolean isReadable(Tensor x) {
        int last = x.rank() - 1;
        boolean runs = x.size(last) == 1 || x.stride(last) == 1;
        boolean apart = x.size(last - 1) == 1 || x.stride(last - 1) >= x.size(last);
        return x.dtype() == DType.F32 && runs && apart;
    }

    private static Tensor assigned(Tensor x, Spec spec) {
        Tensor y = like(x, spec);
        UpdateKernels.run(new Update.Assign(), new Tensor[] {y, x});
        return y;
    }

    private static Tensor converted(Tensor y, Spec spec) {
        if (y.dtype() == spec.dtype()) {
            return y;
        }
        Tensor narrow = assigned(y, spec);
        y.close();
        return narrow;
    }

    /** Returns the mask as numbers to add, with contiguous rows of all keys. */
    private static Tensor additive(Tensor mask, long keys) {
        if (isAdditive(mask, keys)) {
            return mask;
        }
        Shape shape = mask.rank() == 0 ? Shape.of(keys) : mask.shape().with(-1, keys);
        Spec spec = new Spec(DType.F32, shape, mask.device());
        if (mask.dtype() != DType.BOOL) {
            return assignedRowMajor(mask, spec);
        }
        try (Tensor zero = filled(0, mask); Tensor hidden = filled(Float.NEGATIVE_INFINITY, mask)) {
            Spec same = spec.with(mask.shape());
            try (Tensor numbers = Objects.requireNonNull(
                    ElementwiseKernels.run(new Where(), new Tensor[] {mask, zero, hidden}, same))[0]) {
                return assignedRowMajor(numbers, spec);
            }
        }
    }

    private static boolean isAdditive(Tensor mask, long keys) {
        return mask.dtype() == DType.F32 && mask.isContiguous() && mask.rank() > 0 && mask.size(-1) == keys;
    }

    private static Tensor assignedRowMajor(Tensor x, Spec spec) {
        Tensor y = Storage.allocate(spec);
        UpdateKernels.run(new Update.Assign(), new Tensor[] {y, x});
        return y;
    }

    private static Tensor filled(float value, Tensor like) {
        Tensor y = Storage.allocate(new Spec(DType.F32, Shape.of(), like.device()));
        HostMemory.putDouble(DType.F32, y.address(), value);
        return y;
    }

    /** Makes a dense tensor whose dimensions, except the last, have the memory order of those of {@code x}. */
    private static Tensor like(Tensor x, Spec spec) {
        return Storage.allocate(spec, Strides.like(x, spec.shape()));
    }
}
