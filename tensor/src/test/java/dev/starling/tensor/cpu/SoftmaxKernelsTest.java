package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.cpu.rows.RowLoops;
import dev.starling.tensor.cpu.rows.SoftmaxRows;
import dev.starling.tensor.op.CrossEntropy;
import dev.starling.tensor.op.Softmax;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SoftmaxKernelsTest {
    private static final List<SoftmaxRows> ROWS = RowLoops.all().stream().map(RowLoops::softmax).toList();
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    private static Oracle.Kernel softmax(SoftmaxRows rows) {
        return (op, in, out) -> SoftmaxKernels.run((Softmax) op, in, out[0], rows);
    }

    private static Oracle.Kernel crossEntropy(SoftmaxRows rows) {
        return (op, in, out) -> CrossEntropyKernels.run((CrossEntropy) op, in, out, rows);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 10, 15, 16, 17, 31, 33, 100, 1000, 4097})
    void agreesWithTheReferenceForAnyWidth(int columns) {
        int n = columns > 100 ? 5 : 37;
        for (SoftmaxRows rows : ROWS) {
            for (Tensor x : Oracle.layouts(Oracle.random(3, n, columns).mul(5))) {
                Tensor y = Oracle.check(softmax(rows), new Softmax.Exponentials(1), 1e-6, x)[0];
                Tensor log = Oracle.check(softmax(rows), new Softmax.Logarithms(1), 1e-6, x)[0];
                for (Tensor g : Oracle.layouts(Oracle.random(4, n, columns))) {
                    Oracle.check(softmax(rows), new Softmax.ExponentialsGradient(1), 2e-6, y, g);
                    Oracle.check(softmax(rows), new Softmax.LogarithmsGradient(1), 2e-6, log, g);
                }
            }
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3})
    void agreesWithTheReferenceForAnyAxis(int axis) {
        for (SoftmaxRows rows : ROWS) {
            for (Tensor x : Oracle.layouts(Oracle.random(5, 3, 18, 4, 5))) {
                Tensor y = Oracle.check(softmax(rows), new Softmax.Exponentials(axis), 1e-6, x)[0];
                Oracle.check(softmax(rows), new Softmax.ExponentialsGradient(axis), 1e-6, y, x);
                Oracle.check(softmax(rows), new Softmax.Logarithms(axis), 1e-6, x);
            }
        }
    }

    @Test
    void passesOnWhatIsNotFinite() {
        float inf = Float.POSITIVE_INFINITY;
        Tensor x = Tensor.of(new float[] {-inf, -1000, 1000, 0, 0, -inf, Float.NaN, 1, 2, 3, -inf, -inf, -inf, inf, 0},
                5, 3);
        for (SoftmaxRows rows : ROWS) {
            Oracle.check(softmax(rows), new Softmax.Exponentials(1), 1e-6, x);
            Oracle.check(softmax(rows), new Softmax.Logarithms(1), 1e-6, x);
        }
    }

    @Test
    void survivesTheLargestLogits() {
        Tensor x = Tensor.of(new float[] {3e38f, 3e38f, -3e38f, -3e38f, 1e30f, 0}, 3, 2);
        for (SoftmaxRows rows : ROWS) {
            Tensor y = SoftmaxKernels.run(new Softmax.Exponentials(1), new Tensor[] {x}, x.spec(), rows)[0];
            assertThat(y.toFloats()).containsExactly(0.5f, 0.5f, 0.5f, 0.5f, 1, 0);
        }
    }

    @Test
    void computesExponentialsWithinTwoUnitsInTheLastPlace() {
        int n = 25_000;
        float[] logs = new float[n * 8];
        for (int i = 0; i < logs.length; i++) {
            logs[i] = -87.3f * i / logs.length;
        }
        CrossEntropy op = new CrossEntropy.Gradient(0, -1);
        Tensor[] in = {Tensor.ones(n), Tensor.of(logs, n, 8), Tensor.zeros(n, 2), Tensor.full(DType.I64, 0, n)};
        for (SoftmaxRows rows : ROWS) {
            float[] p = CrossEntropyKernels.run(op, in, new Spec[] {in[1].spec()}, rows)[0].toFloats();
            double largest = 0;
            for (int i = 0; i < logs.length; i++) {
                double exact = Math.exp(logs[i]);
                largest = i % 8 == 0 ? largest : Math.max(largest, Math.abs(p[i] - exact) / Math.ulp((float) exact));
            }
            assertThat(largest).isBetween(0.1, 2.0);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 10, 16, 17, 100, 1001})
    void computesCrossEntropyAsTheReferenceDoes(int classes) {
        long[] targets = new long[45];
        for (int i = 0; i < targets.length; i++) {
            targets[i] = i % 6 == 5 ? -100 : i * 7L % classes;
        }
        for (SoftmaxRows rows : ROWS) {
            for (DType type : List.of(DType.I64, DType.I32)) {
                for (Tensor target : Oracle.layouts(Oracle.indices(type, targets))) {
                    for (double smoothing : new double[] {0, 0.1, 1}) {
                        crossEntropy(rows, classes, target, smoothing);
                    }
                }
            }
        }
    }

    private static void crossEntropy(SoftmaxRows rows, int classes, Tensor target, double smoothing) {
        CrossEntropy op = new CrossEntropy.Loss(smoothing, -100);
        CrossEntropy gradient = new CrossEntropy.Gradient(smoothing, -100);
        for (Tensor x : Oracle.layouts(Oracle.random(6, target.count(), classes).mul(4))) {
            Tensor kept = Oracle.check(crossEntropy(rows), op, 2e-6, x, target)[1];
            Oracle.check(crossEntropy(rows), gradient, 2e-6, Oracle.random(7, target.count()), x, kept, target);
            Tensor even = Tensor.scalar(0.25).expand(target.count());
            Oracle.check(crossEntropy(rows), gradient, 2e-6, even, x, kept, target);
        }
        Tensor special = Oracle.withSpecials(Oracle.random(6, target.count(), classes));
        Tensor[] y = Oracle.check(crossEntropy(rows), op, 2e-6, special, target);
        Oracle.check(crossEntropy(rows), gradient, 2e-6, Oracle.random(7, target.count()), special, y[1],
                target);
    }

    /** The maximum logit and the logarithm are kept apart: their sum in f32 would lose digits of the logarithm. */
    @Test
    void doesNotLoseProbabilitiesOfLogitsFarFromZero() {
        Tensor near = Oracle.random(8, 5, 40);
        Tensor far = near.mul(8).round().div(8).add(16384);
        Tensor target = Tensor.of(new long[] {0, 1, 2, 3, 39});
        for (SoftmaxRows rows : ROWS) {
            Tensor[] loss = Oracle.check(crossEntropy(rows), new CrossEntropy.Loss(0.1, -1), 2e-6, far, target);
            Oracle.check(crossEntropy(rows), new CrossEntropy.Gradient(0.1, -1), 2e-6, Tensor.ones(5), far, loss[1],
                    target);
        }
    }

    @Test
    void computesLossesOfSixteenBitsInF32() {
        Tensor logits = Oracle.random(9, 4, 33).mul(4).to(DType.BF16);
        Tensor target = Tensor.of(new long[] {0, 32, 7, 3});
        Tensor[] narrow = Tensor.apply(new CrossEntropy.Loss(0.1, -1), logits, target);
        Tensor[] wide = Tensor.apply(new CrossEntropy.Loss(0.1, -1), logits.to(DType.F32), target);
        assertThat(narrow[0].dtype()).isEqualTo(DType.F32);
        assertThat(narrow[0].toFloats()).isEqualTo(wide[0].toFloats());
        assertThat(narrow[1].toFloats()).isEqualTo(wide[1].toFloats());
        Tensor gradient = Tensor.compute(new CrossEntropy.Gradient(0.1, -1), narrow[0], logits, narrow[1], target);
        assertThat(gradient.dtype()).isEqualTo(DType.BF16);
    }

    @Test
    void namesTheRowOfAClassThatDoesNotExist() {
        Tensor logits = Oracle.random(1, 4, 10);
        for (long wrong : new long[] {10, -1}) {
            Tensor target = Tensor.of(new long[] {0, 9, 3, wrong});
            assertThatThrownBy(() -> Tensor.apply(new CrossEntropy.Loss(0, -100), logits, target))
                    .isInstanceOfSatisfying(TensorException.class, e -> {
                        assertThat(e.problem()).isEqualTo(TensorException.Problem.INDEX);
                        assertThat(e).hasMessageContainingAll("row 3", "class " + wrong, "0 and 9");
                    });
        }
    }

    @Test
    void leavesOtherTypesAndEmptyTensorsToTheReference() {
        for (Tensor x : List.of(Oracle.random(1, 3, 4).to(DType.F64), Tensor.zeros(3, 0), Tensor.zeros(0, 4))) {
            Softmax op = new Softmax.Exponentials(1);
            assertThat(SoftmaxKernels.run(op, new Tensor[] {x}, x.spec())).isNull();
            assertThat(Tensor.compute(op, x).spec()).isEqualTo(x.spec());
        }
    }

    @Test
    void refusesATargetThatChangesDuringTheOperation() {
        Tensor logits = Oracle.random(1, 3, 4);
        for (CrossEntropy op : List.of(new CrossEntropy.Loss(0, -100), new CrossEntropy.Gradient(0, -100))) {
            Tensor target = Tensor.of(new long[] {0, 3, 1});
            Tensor[] in = op instanceof CrossEntropy.Loss ? new Tensor[] {logits, target}
                    : new Tensor[] {Tensor.ones(3), logits, Tensor.zeros(3, 2), target};
            SoftmaxRows changes = (SoftmaxRows) Proxy.newProxyInstance(SoftmaxRows.class.getClassLoader(),
                    new Class<?>[] {SoftmaxRows.class}, (proxy, method, arguments) -> {
                        target.segment().set(ValueLayout.JAVA_LONG, 8, 4);
                        return method.invoke(RowLoops.FASTEST.softmax(), arguments);
                    });
            Spec[] specs = op.infer(Stream.of(in).map(Tensor::spec).toArray(Spec[]::new));
            assertThatThrownBy(() -> CrossEntropyKernels.run(op, in, specs, changes))
                    .isInstanceOf(TensorException.class).hasMessageContaining("the target of row 1, class 4");
        }
    }
}
