package dev.starling.tensor.op;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Many updates together against the same updates one by one. */
class UpdateAllTest {
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    private static final Update[] OPS = {
        new Rule.Sgd(0, 0, 0.01, false).step(0.1, 1), new Rule.Sgd(0.9, 0.1, 0, true).step(0.1, 1),
        new Rule.Adam(0.9, 0.999, 1e-8, 0.1, true).step(0.01, 3), new Update.Blend(0.9, 0.1), new Update.Assign()};

    /** Operands of all operations, the same each time. */
    private static Tensor[][] operands(Device device) {
        Generator random = Generator.seeded(7);
        Tensor[][] all = new Tensor[OPS.length][];
        for (int i = 0; i < all.length; i++) {
            all[i] = new Tensor[OPS[i] instanceof Update.Step s ? 2 + s.rule().slots().size() : 2];
            for (int k = 0; k < all[i].length; k++) {
                all[i][k] = random.uniform(3, 11 + i).add(0.1).to(device);
            }
        }
        return all;
    }

    private static float[][] read(Tensor[][] operands) {
        return Arrays.stream(operands).flatMap(Arrays::stream).map(Tensor::toFloats).toArray(float[][]::new);
    }

    /** Every thread would else read what its neighbours have written. */
    @ParameterizedTest
    @ValueSource(strings = {"cpu", "reference"})
    void readsOldElementsWhereOperandsOverlap(String name) {
        Device device = name.equals("cpu") ? Device.cpu() : Device.reference();
        int n = 300_000;
        Tensor x = Tensor.arange(new Spec(DType.F32, Shape.of(n), device), 0, 1);
        Tensor.apply(new Update.Blend(1, 1), x.narrow(0, 1, n - 1), x.narrow(0, 0, n - 1));
        Tensor.applyAll(new Update[] {new Update.Blend(1, 1)},
                new Tensor[][] {{x.narrow(0, 0, n - 1), x.narrow(0, 1, n - 1)}}, null);
        float[] expected = new float[n];
        for (int i = 0; i < n; i++) {
            float here = i == 0 ? 0 : 2 * i - 1;
            expected[i] = i == n - 1 ? here : here + 2 * i + 1;
        }
        assertThat(x.toFloats()).isEqualTo(expected);
    }

    @ParameterizedTest
    @ValueSource(strings = {"cpu", "reference"})
    void equalsSingleUpdates(String name) {
        Device device = name.equals("cpu") ? Device.cpu() : Device.reference();
        Tensor[][] single = operands(device);
        for (int i = 0; i < OPS.length; i++) {
            Tensor.apply(OPS[i], single[i]);
        }
        Tensor[][] together = operands(device);
        int version = together[2][0].storage().version();
        Tensor.applyAll(OPS, together, Tensor.scalar(3).to(device));
        assertThat(read(together)).isDeepEqualTo(read(single)).isNotEqualTo(read(operands(device)));
        assertThat(together[2][0].storage().version()).isEqualTo(version + 1);
    }

    @ParameterizedTest
    @ValueSource(doubles = {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY})
    void changesNothingIfTheGuardIsNotFinite(double guard) {
        for (DType type : new DType[] {DType.F32, DType.F64, DType.F16, DType.BF16}) {
            Tensor[][] operands = operands(Device.cpu());
            Tensor.applyAll(OPS, operands, Tensor.full(type, guard));
            assertThat(read(operands)).isDeepEqualTo(read(operands(Device.cpu())));
        }
    }

    @Test
    void recordsEachUpdate() {
        Tensor[][] operands = operands(Device.cpu());
        List<Op> seen = new ArrayList<>();
        Recorder.with((op, inputs, outputs) -> {
            assertThat(inputs).isSameAs(operands[seen.size()]);
            assertThat(outputs).isEmpty();
            seen.add(op);
        }, () -> {
            Tensor.applyAll(OPS, operands, null);
            return null;
        });
        assertThat(seen).containsExactly(OPS);
    }

    @Test
    void refusesAllIfOneDoesNotFit() {
        for (Tensor bad : new Tensor[] {Tensor.ones(3, 16), Tensor.ones(3, 15).to(DType.F64),
                Tensor.ones(3, 15).to(Device.reference())}) {
            Tensor[][] operands = operands(Device.cpu());
            operands[3][1] = bad;
            Tensor[][] before = operands(Device.cpu());
            before[3][1] = bad;
            if (bad.dtype() == DType.F64) {
                assertThatThrownBy(() -> Tensor.applyAll(OPS, operands, null))
                        .isInstanceOf(TensorException.class).hasMessageStartingWith("blend")
                        .hasMessageContaining("f64");
            } else {
                assertThatThrownBy(() -> Tensor.applyAll(OPS, operands, null)).isInstanceOf(TensorException.class);
            }
            assertThat(read(operands)).isDeepEqualTo(read(before));
        }
    }

    @Test
    void refusesAnInvalidGuard() {
        for (Tensor bad : new Tensor[] {Tensor.ones(1), Tensor.full(DType.I32, 1),
                Tensor.scalar(1).to(Device.reference())}) {
            Tensor[][] operands = operands(Device.cpu());
            assertThatThrownBy(() -> Tensor.applyAll(OPS, operands, bad)).isInstanceOf(TensorException.class);
            assertThat(read(operands)).isDeepEqualTo(read(operands(Device.cpu())));
        }
        assertThatThrownBy(() -> Tensor.applyAll(OPS, new Tensor[1][], null))
                .hasMessageContaining("each of 5 operations, got 1");
    }
}
