package dev.starling.autograd;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Epilogue;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Consecutive dense layers: when a layer computes the gradient before its predecessor's epilogue, and that it is
 * correct.
 */
class EpilogueGradientTest {
    private final Generator generator = Generator.seeded(7);
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open("test");
    }

    @AfterEach
    void close() {
        scope.close();
    }

    private Tensor x(long... shape) {
        return generator.normal(new Spec(DType.F64, Shape.of(shape), Device.current()), 0, 1);
    }

    /** Returns the names of the operations that run in {@code body}. */
    private static List<String> operations(Supplier<?> body) {
        List<String> names = new ArrayList<>();
        Interceptor.with((op, inputs, outputs) -> names.add(op.name()), body);
        return names;
    }

    @ParameterizedTest
    @CsvSource({"NONE,reference", "RELU,reference", "GELU,reference", "NONE,cpu", "RELU,cpu", "GELU,cpu"})
    void differentiatesConsecutiveLayers(Epilogue epilogue, String device) {
        Device.with(Device.of(device, 0), () -> {
            for (long[] shape : new long[][] {{3}, {4, 3}, {2, 2, 3}}) {
                GradientCheck.check(t -> Functions.linear(Functions.linear(Functions.linear(t[0], t[1], t[2], epilogue),
                        t[3], t[4], epilogue), t[5], null, Epilogue.NONE), x(shape), x(5, 3), x(5), x(4, 5), x(4),
                        x(2, 4));
                GradientCheck.check(t -> Functions.linear(Functions.linear(t[0], t[1], null, epilogue), t[2], t[3],
                        epilogue), x(shape), x(5, 3), x(4, 5), x(4));
            }
            return null;
        });
    }

    @ParameterizedTest
    @EnumSource(value = Epilogue.class, names = {"RELU", "GELU"})
    void computesTheGradientBeforeThePrecedingEpilogue(Epilogue epilogue) {
        Tensor[] in = {x(4, 3), x(5, 3), x(5), x(2, 5), x(2)};
        Tape tape = new Tape().watch(in);
        Tensor y = tape.record(() -> Functions.linear(Functions.linear(in[0], in[1], in[2], epilogue), in[3], in[4]));
        assertThat(operations(() -> tape.backward(y, y))).containsExactly("linearInputGradient",
                "linearWeightGradient", "matMul", "linearWeightGradient");
    }

    /** Each reader must get the same gradients as without an epilogue and with a separate activation. */
    @ParameterizedTest
    @EnumSource(value = Epilogue.class, names = {"RELU", "GELU"})
    void givesTheSameGradientsWhereOtherOperationsReadTheOperand(Epilogue epilogue) {
        Tensor[] in = {x(3, 3), x(3, 3), x(3), x(3, 3), x(3), x(3, 3)};
        List<Function<Tensor, Tensor>> readers = List.of(
                h -> Functions.linear(h, in[3], in[4]).add(h),
                h -> Functions.linear(h, h, null),
                h -> Functions.linear(h, in[3], in[4]).mul(Functions.linear(h, in[3].neg(), null)),
                h -> Functions.linear(h.mul(2), in[3], in[4]),
                h -> Functions.linear(h.t(), in[3], in[4]),
                h -> Functions.linear(in[5], h, null),
                h -> h);
        for (Function<Tensor, Tensor> reader : readers) {
            Tape tape = new Tape().watch(in);
            Tensor y = tape.record(() -> reader.apply(Functions.linear(in[0], in[1], in[2], epilogue)));
            assertThat(operations(() -> tape.backward(y, y))).doesNotContain("linearInputGradient");
            GradientCheck.check(t -> reader.apply(Functions.linear(t[0], t[1], t[2], epilogue)), in[0], in[1], in[2]);
        }
    }

    @Test
    void passesTheGradientOfAHiddenResultToItsHook() {
        Tensor[] in = {x(4, 3), x(5, 3), x(2, 5)};
        Tensor[] seen = new Tensor[2];
        Tensor[] hidden = new Tensor[2];
        Gradients[] found = new Gradients[2];
        for (Epilogue epilogue : new Epilogue[] {Epilogue.RELU, Epilogue.GELU}) {
            for (int i = 0; i < 2; i++) {
                int run = i;
                Tape tape = new Tape().watch(in);
                Tensor y = tape.record(() -> {
                    hidden[run] = run == 0 ? Functions.linear(in[0], in[1], null, epilogue)
                            : epilogue.apply(Functions.linear(in[0], in[1], null));
                    return Functions.linear(hidden[run], in[2], null);
                });
                tape.hook(hidden[i], g -> seen[run] = g.mul(3));
                found[i] = tape.backward(y, y);
            }
            assertThat(seen[0].toDoubles()).usingComparatorWithPrecision(1e-12).containsExactly(seen[1].toDoubles());
            for (Tensor t : in) {
                assertThat(found[0].of(t).toDoubles()).usingComparatorWithPrecision(1e-12)
                        .containsExactly(found[1].of(t).toDoubles());
            }
        }
    }

    @Test
    void showsEachGradientToAnomalyChecksAndRecorders() {
        Tensor[] in = {x(4, 3), x(5, 3), x(2, 5)};
        Tape checked = new Tape().watch(in).detectAnomalies();
        Tensor y = checked.record(() -> Functions.linear(Functions.linearRelu(in[0], in[1], null), in[2], null));
        assertThat(operations(() -> checked.backward(y, y))).contains("reluGradient")
                .doesNotContain("linearInputGradient");
        Tape tape = new Tape().watch(in);
        Tensor z = tape.record(() -> Functions.linear(Functions.linearRelu(in[0], in[1], null), in[2], null));
        assertThat(operations(() -> Recorder.with((op, i, o) -> { }, () -> tape.backward(z, z))))
                .doesNotContain("reluGradient", "linearInputGradient");
        assertThat(operations(() -> tape.backward(z, z))).contains("linearInputGradient");
    }

    @Test
    void passesTheGradientThroughALayerWithFrozenWeights() {
        Tensor[] in = {x(4, 3), x(5, 3), x(5), x(2, 5), x(2)};
        Function<Tensor[], Tensor> layers = t -> Functions.linear(Functions.linear(in[0], t[0], t[1], Epilogue.GELU),
                in[3], in[4]);
        GradientCheck.check(layers, in[1], in[2]);
        GradientCheck.check(t -> Functions.linear(Functions.linear(in[0], in[1], t[0], Epilogue.GELU), in[3], t[1]),
                in[2], in[4]);
        GradientCheck.check(t -> Functions.linear(Functions.linear(t[0], in[1], null, Epilogue.RELU), in[3], null),
                in[0]);
    }

    /** A caller that applies the operation directly may use either result. */
    @Test
    void differentiatesBothResultsOfALayerThatKeepsItsInput() {
        Contraction.Linear keeps = new Contraction.Linear(Epilogue.GELU, true);
        GradientCheck.check(t -> {
            Tensor[] both = Tensor.apply(keeps, t[0], t[1], t[2]);
            return Functions.linear(both[0], t[3], null).add(both[1].square().sum());
        }, x(4, 3), x(5, 3), x(5), x(2, 5));
        GradientCheck.check(t -> Tensor.apply(keeps, t[0], t[1])[1].square(), x(4, 3), x(5, 3));
        GradientCheck.check(t -> Functions.linear(Tensor.compute(new Contraction.Linear(Epilogue.GELU), t[0], t[1]),
                t[2], null), x(4, 3), x(5, 3), x(2, 5));
        GradientCheck.check(t -> Functions.linear(Tensor.apply(keeps, t[0], t[1], t[2])[1], t[3], null), x(4, 3),
                x(5, 3), x(5), x(2, 5));
    }

    @Test
    void differentiatesAnIntermediateResultAfterTheFinalOne() {
        Tensor[] in = {x(4, 3), x(5, 3), x(2, 5)};
        Tape tape = new Tape().watch(in);
        Tensor[] hidden = new Tensor[1];
        Tensor y = tape.record(() -> {
            hidden[0] = Functions.linearRelu(in[0], in[1], null);
            return Functions.linear(hidden[0], in[2], null);
        });
        tape.backward(y, y);
        Tape alone = new Tape().watch(in);
        Tensor h = alone.record(() -> Functions.linear(in[0], in[1], null).relu());
        assertThat(tape.backward(hidden[0], hidden[0]).of(in[1]).toDoubles()).usingComparatorWithPrecision(1e-12)
                .containsExactly(alone.backward(h, h).of(in[1]).toDoubles());
    }
}
