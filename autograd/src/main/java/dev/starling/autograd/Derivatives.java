package dev.starling.autograd;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Derivatives of functions of one tensor, in forward and reverse mode, of any order. Those of a function whose result
 * does not depend on the tensor are zeros.
 */
public final class Derivatives {
    private Derivatives() {
    }

    /** Returns the gradient of {@code f} at {@code x}. The result of {@code f} must have one element. */
    public static Tensor gradient(Function<Tensor, Tensor> f, Tensor x) {
        Tape tape = new Tape().watch(x);
        return gradient(tape, tape.record(() -> f.apply(x)), x);
    }

    /**
     * Returns the vector-Jacobian product {@code vᵀJ} of {@code f} at {@code x}, with {@code v} of the shape of
     * {@code f(x)}.
     */
    public static Tensor vjp(Function<Tensor, Tensor> f, Tensor x, Tensor v) {
        Tape tape = new Tape().watch(x);
        return vjp(tape, tape.record(() -> f.apply(x)), x, v);
    }

    /**
     * Returns the Jacobian-vector product {@code Jv} of {@code f} at {@code x}, with {@code v} of the shape of
     * {@code x}: {@code uᵀJ} is linear in {@code u}, and its gradient along {@code v} is {@code Jv}.
     */
    public static Tensor jvp(Function<Tensor, Tensor> f, Tensor x, Tensor v) {
        Tape inner = new Tape().watch(x);
        Tensor y = inner.record(() -> f.apply(x));
        Tensor u = y.zerosLike();
        Tape outer = new Tape().watch(u);
        Tensor product = outer.record(() -> vjp(inner, y, x, u));
        return vjp(outer, product, u, v);
    }

    /** Returns the Hessian-vector product {@code Hv} of a function whose result has one element. */
    public static Tensor hvp(Function<Tensor, Tensor> f, Tensor x, Tensor v) {
        Tape tape = new Tape().watch(x);
        return gradient(tape, tape.record(() -> gradient(tape, f.apply(x), x).mul(v).sum()), x);
    }

    /** Returns the Jacobian {@code [*f(x), *x]}, computed one row at a time. */
    public static Tensor jacobian(Function<Tensor, Tensor> f, Tensor x) {
        Tape tape = new Tape().watch(x);
        Tensor y = tape.record(() -> f.apply(x));
        return rows(tape, y, x);
    }

    /** Returns the Hessian {@code [*x, *x]} of a function whose result has one element. */
    public static Tensor hessian(Function<Tensor, Tensor> f, Tensor x) {
        Tape tape = new Tape().watch(x);
        Tensor slope = tape.record(() -> gradient(tape, f.apply(x), x));
        return rows(tape, slope, x);
    }

    private static Tensor rows(Tape tape, Tensor y, Tensor x) {
        Shape shape = y.shape().concat(x.shape());
        if (y.count() == 0) {
            return Tensor.full(x.spec().with(shape), 0);
        }
        int n = Math.toIntExact(y.count());
        Tensor[] rows = new Tensor[n];
        for (int i = 0; i < n; i++) {
            Tensor unit = Tensor.arange(
                    new Spec(y.dtype(), Shape.of(n), y.device()), -i, 1).eq(0).to(y.dtype());
            rows[i] = vjp(tape, y, x, unit.reshape(y.shape()));
        }
        return Tensor.stack(0, rows).reshape(shape);
    }

    private static Tensor gradient(Tape tape, Tensor y, Tensor x) {
        return y.count() == 1 && !tape.depends(y) ? x.zerosLike() : orZeros(tape.backward(y).get(x), x);
    }

    private static Tensor vjp(Tape tape, Tensor y, Tensor x, Tensor v) {
        return tape.depends(y) ? orZeros(tape.backward(y, v).get(x), x) : x.zerosLike();
    }

    private static Tensor orZeros(@Nullable Tensor gradient, Tensor x) {
        return gradient == null ? x.zerosLike() : gradient;
    }
}
