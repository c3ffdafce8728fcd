package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Selection;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class SelectionKernelsTest {
    private static final Oracle.Kernel KERNEL = (op, in, out) -> SelectionKernels.run((Selection) op, in, out[0]);
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    /** Returns indices into a dimension, some of them equal and some of them negative. */
    private static Tensor indices(long size, DType type, long... shape) {
        SplittableRandom random = new SplittableRandom(size);
        long[] elements = new long[(int) Tensor.full(DType.I8, 0, shape).count()];
        for (int i = 0; i < elements.length; i++) {
            elements[i] = random.nextLong(-size, size);
        }
        return Tensor.of(elements, shape).to(type);
    }

    @ParameterizedTest
    @EnumSource(DType.class)
    void selectsFromEveryTypeAndLayout(DType type) {
        for (long inner : new long[] {1, 2, 3, 17, 64}) {
            for (Tensor x : Oracle.layouts(Oracle.random(1, 7, 5, inner).mul(20).to(type))) {
                Oracle.check(KERNEL, new Selection.Take(0), 0, x, indices(7, DType.I64, 3, 4));
                Oracle.check(KERNEL, new Selection.Take(1), 0, x, indices(5, DType.I32, 9));
                Oracle.check(KERNEL, new Selection.Take(2), 0, x, indices(inner, DType.I64, 2, 1).transpose(0, 1));
            }
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 15, 16, 17, 33, 100})
    void addsGradientsOfRepeatedIndices(long inner) {
        Tensor g = Oracle.random(2, 4, 30, inner);
        for (Tensor grad : Oracle.layouts(g)) {
            Oracle.check(KERNEL, new Selection.TakeGradient(1, 6), 1e-6, grad, indices(6, DType.I64, 30));
            Oracle.check(KERNEL, new Selection.TakeGradient(0, 9), 1e-6, grad, indices(9, DType.I32, 4, 30));
        }
        Oracle.check(KERNEL, new Selection.TakeGradient(0, 5000), 1e-6, Oracle.random(3, 300, inner),
                indices(5000, DType.I64, 300));
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"F32", "F64", "I64", "I32"})
    void gathersAndScatters(DType type) {
        for (Tensor x : Oracle.layouts(Oracle.random(4, 6, 5, 33).mul(20).to(type))) {
            for (int axis = 0; axis < 3; axis++) {
                long[] shape = x.shape().dims();
                shape[axis] = 4;
                Tensor index = indices(x.size(axis), DType.I64, shape);
                Tensor source = Oracle.random(5, shape).mul(20).to(type);
                Oracle.check(KERNEL, new Selection.Gather(axis), 0, x, index);
                Oracle.check(KERNEL, new Selection.Scatter(axis), 0, x, index, source);
                if (type != DType.I32) {
                    Oracle.check(KERNEL, new Selection.ScatterAdd(axis), 1e-6, x, index.to(DType.I32), source);
                }
            }
        }
    }

    @Test
    void namesTheIndexThatIsOutOfRange() {
        Tensor x = Oracle.random(1, 3, 4);
        Tensor index = Tensor.of(new long[] {0, -4, 4, 1}, 1, 4).expand(3, 4);
        Tensor far = Tensor.of(new long[] {1, -5});
        for (Op op : List.of(new Selection.Gather(1), new Selection.ScatterAdd(1), new Selection.Scatter(1))) {
            Tensor[] in = op instanceof Selection.Gather ? new Tensor[] {x, index} : new Tensor[] {x, index, x};
            fails(op, "index 4 at position 2 must lie between -4 and 3", in);
        }
        fails(new Selection.Take(1), "index -5 at position 1 must lie between -4 and 3", x, far);
        fails(new Selection.TakeGradient(0, 4), "index -5 at position 1 must lie between -4 and 3",
                x.narrow(0, 0, 2), far);
    }

    private static void fails(Op op, String relation, Tensor... in) {
        assertThatThrownBy(() -> Tensor.apply(op, in)).isInstanceOfSatisfying(TensorException.class, e -> {
            assertThat(e.problem()).isEqualTo(TensorException.Problem.INDEX);
            assertThat(e.op()).isEqualTo(op.name());
            assertThat(e.relation()).isEqualTo(relation);
        });
    }

    @Test
    void leavesTheRestToTheReference() {
        Tensor x = Oracle.random(1, 3, 4);
        Tensor none = Tensor.zeros(0).to(DType.I64);
        assertThat(x.take(0, none).shape().dims()).containsExactly(0, 4);
        assertThat(x.gather(1, indices(4, DType.I64, 2, 2)).shape().dims()).containsExactly(2, 2);
        assertThat(KERNEL.run(new Selection.Gather(1), new Tensor[] {x, indices(4, DType.I64, 2, 2)},
                new Spec[] {x.narrow(0, 0, 2).narrow(1, 0, 2).spec()})).isNull();
    }

    @Test
    void refusesAnIndexThatChangesDuringTheOperation() {
        Tensor index = Tensor.of(new long[] {0, 3});
        Indices indices = Indices.checked(new Selection.Take(0), index, 4, index);
        for (long outside : new long[] {4, -5, Long.MAX_VALUE, Long.MIN_VALUE}) {
            index.segment().set(ValueLayout.JAVA_LONG, 8, outside);
            assertThatThrownBy(() -> indices.get(1)).isInstanceOf(TensorException.class).hasMessageContaining(
                    "take: index " + outside + " at position 1 was changed during the operation");
        }
        index.segment().set(ValueLayout.JAVA_LONG, 8, -4);
        assertThat(indices.get(1)).isZero();
    }
}
