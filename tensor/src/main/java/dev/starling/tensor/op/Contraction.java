package dev.starling.tensor.op;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** Sums of products. Operands are read by their strides, so that a transposed operand is not copied. */
public sealed interface Contraction extends Op {
    /**
     * {@code [.., m, k] · [.., k, n] → [.., m, n]}; leading dimensions broadcast. Any type of numbers; sums as in
     * {@link Reduction.Sum}, but in the operands' type.
     */
    record MatMul() implements Contraction {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 2, 2);
            Check.sameType(this, in);
            Shape a = in[0].shape();
            Shape b = in[1].shape();
            Check.shape(a.rank() >= 2 && b.rank() >= 2, this, "needs rank >= 2",
                    "use the method matmul, or unsqueeze", in);
            if (a.dim(-1) != b.dim(-2)) {
                throw Check.shape(this, "inner sizes must agree: " + a.dim(-1) + " ≠ " + b.dim(-2),
                        "transpose or reshape an operand", in);
            }
            Shape lead = Check.lead(this, a.slice(0, a.rank() - 2), b.slice(0, b.rank() - 2), in);
            Shape rows = lead.concat(a.slice(a.rank() - 2, a.rank()));
            return new Spec[] {in[0].with(rows.with(-1, b.dim(-1)))};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {
                b.needs(0) ? b.grad().matmul(b.in(1).transpose(-2, -1)).sumTo(b.in(0).shape()) : null,
                b.needs(1) ? b.in(0).transpose(-2, -1).matmul(b.grad()).sumTo(b.in(1).shape()) : null};
        }
    }

    /**
     * A dense layer: operands {@code (x [.., in], weight [out, in])} and optionally {@code bias [out]} give
     * {@code epilogue(x·weightᵀ + bias) [.., out]} and, on request, the operand of the epilogue.
     *
     * @param epilogue applied to the result before it is written
     * @param keeps whether to return the second result; only with GELU, whose gradient is computed from it
     */
    record Linear(Epilogue epilogue, boolean keeps) implements Contraction {
        /** Makes a layer with one result. */
        public Linear(Epilogue epilogue) {
            this(epilogue, false);
        }

        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 2, 3);
            Check.argument(!keeps || epilogue == Epilogue.GELU, this, "keeps the operand of its epilogue only for GELU",
                    "use a layer without an epilogue", in);
            Check.floating(this, in);
            Check.sameType(this, in);
            Check.rank(this, in[1], 2, in);
            if (in[0].shape().rank() < 1 || in[0].shape().dim(-1) != in[1].shape().dim(1)) {
                throw Check.shape(this, "the last size of x must be the weight's inputs, " + in[1].shape().dim(1),
                        "flatten or reshape x", in);
            }
            if (in.length != 2 && !in[2].shape().equals(in[1].shape().slice(0, 1))) {
                throw Check.shape(this, "the bias must be [" + in[1].shape().dim(0) + "]",
                        "give one value for each output", in);
            }
            Spec y = in[0].with(in[0].shape().with(-1, in[1].shape().dim(0)));
            return keeps ? new Spec[] {y, y} : new Spec[] {y};
        }

        /** Returns the operand of the gradient through the epilogue, or {@code null} if the results lack it. */
        public Epilogue.@Nullable Applied applied(Tensor[] results) {
            return switch (epilogue) {
                case NONE -> null;
                case RELU -> new Epilogue.Applied(epilogue, results[0]);
                case GELU -> keeps ? new Epilogue.Applied(epilogue, results[1]) : null;
            };
        }

        @Override
        public Tensor[] vjp(Backward b) {
            Tensor x = rows(b.in(0));
            Tensor w = b.in(1);
            Tensor g = rows(beforeEpilogue(b));
            Tensor[] result = new Tensor[b.inputs().length];
            if (b.needs(0)) {
                Epilogue.Applied through = b.through();
                result[0] = (through == null ? g.matmul(w) : Tensor.compute(
                        new LinearInputGradient(through.epilogue()), g, w, rows(through.kept())))
                        .reshape(b.in(0).shape());
            }
            boolean bias = result.length == 3 && b.needs(2);
            if (b.needs(1) && bias) {
                Tensor[] both = Tensor.apply(new LinearWeightGradient(), g, x);
                System.arraycopy(both, 0, result, 1, 2);
            } else if (b.needs(1)) {
                result[1] = matrix(g).transpose(0, 1).matmul(matrix(x));
            } else if (bias) {
                result[2] = matrix(g).sum(0);
            }
            return result;
        }

        private Tensor beforeEpilogue(Backward b) {
            Tensor g = b.grad();
            if (!b.beforeEpilogue() && epilogue != Epilogue.NONE) {
                Epilogue.Applied applied = applied(b.outputs());
                g = epilogue.gradient(b, applied != null ? applied.kept()
                        : Tensor.compute(new Linear(Epilogue.NONE), b.inputs()));
            }
            return keeps && b.gradients()[1] != null ? g.add(b.grad(1)) : g;
        }

        /** Returns {@code x}, a single row as a matrix. */
        private static Tensor rows(Tensor x) {
            return x.rank() == 1 ? x.unsqueeze(0) : x;
        }

        /** Returns {@code x} with its leading dimensions merged. */
        private static Tensor matrix(Tensor x) {
            return x.flatten(0, x.rank() - 2);
        }
    }

    /**
     * The gradient of {@link Linear} before the epilogue that made its operand {@code x}: operands
     * {@code (g [.., rows, out], weight [out, in], kept [.., rows, in])} give {@code g·weight} times the epilogue's
     * slope at {@code kept}, {@code [.., rows, in]}.
     *
     * @param epilogue the epilogue that made {@code x}, with {@code kept} as in {@link Epilogue#gradient()}
     */
    record LinearInputGradient(Epilogue epilogue) implements Contraction, GradientKernel {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 3, 3);
            Check.argument(epilogue != Epilogue.NONE, this, "needs an epilogue", "use matMul", in);
            Check.floating(this, in);
            Check.sameType(this, in);
            requireRows(this, in[0], in);
            Check.rank(this, in[1], 2, in);
            if (in[0].shape().dim(-1) != in[1].shape().dim(0)) {
                throw Check.shape(this, "g must have the weight's outputs, " + in[1].shape().dim(0),
                        "pass the gradient of the result", in);
            }
            Shape x = in[0].shape().with(-1, in[1].shape().dim(1));
            if (!in[2].shape().equals(x)) {
                throw Check.shape(this, "the kept operand must be " + x, "pass the operand of the epilogue", in);
            }
            return new Spec[] {in[2]};
        }
    }

    /**
     * The gradients of {@link Linear} with respect to weight and bias: operands {@code (g [.., rows, out],
     * x [.., rows, in])} give {@code (gᵀ·x [out, in], Σ g [out])}, the sums over all rows.
     */
    record LinearWeightGradient() implements Contraction {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 2, 2);
            Check.floating(this, in);
            Check.sameType(this, in);
            Shape g = in[0].shape();
            Shape x = in[1].shape();
            requireRows(this, in[0], in);
            Check.shape(x.rank() == g.rank() && x.equals(g.with(-1, x.dim(-1))), this,
                    "g and x must have the same rows", "pass the gradient of the result", in);
            Shape bias = g.slice(g.rank() - 1, g.rank());
            return new Spec[] {in[0].with(bias.concat(x.slice(x.rank() - 1, x.rank()))), in[0].with(bias)};
        }

        @Override
        public Tensor[] vjp(Backward b) {
            return new Tensor[] {
                b.needs(0) ? Tensor.compute(new Linear(Epilogue.NONE), b.in(1), b.grad(0), b.grad(1)) : null,
                b.needs(1) ? b.in(0).matmul(b.grad(0)) : null};
        }
    }

    private static void requireRows(Op op, Spec x, Spec... operands) {
        Check.shape(x.shape().rank() >= 2, op, "needs rows in the last two dimensions", "unsqueeze a single row",
                operands);
    }
}
