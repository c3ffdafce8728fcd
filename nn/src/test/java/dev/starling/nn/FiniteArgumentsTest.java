package dev.starling.nn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.data.Augment;
import dev.starling.nn.image.Transforms;
import dev.starling.nn.layer.Elu;
import dev.starling.nn.layer.LeakyRelu;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.preprocess.Rescale;
import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.function.DoubleFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Numbers that would make every result NaN or infinite are refused where they are given. */
class FiniteArgumentsTest {
    private static final List<DoubleFunction<Object>> RATES = List.of(
            Schedule::constant,
            v -> Schedule.decay(v, 1, 0.5), v -> Schedule.decay(1, 1, v),
            v -> Schedule.cosine(v, 0, 10), v -> Schedule.cosine(1, v, 10),
            v -> Schedule.oneCycle(v, 10),
            v -> Schedule.cosineRestarts(v, 0, 10, 2), v -> Schedule.cosineRestarts(1, v, 10, 2),
            v -> Schedule.polynomial(v, 0, 10, 1), v -> Schedule.polynomial(1, v, 10, 1),
            v -> Schedule.multiStep(v, 0.5, 10), v -> Schedule.multiStep(1, v, 10));
    private static final List<DoubleFunction<Object>> OTHERS = List.of(
            Elu::new, LeakyRelu::new, v -> new Rescale(v, 0), v -> new Rescale(1, v),
            Initializer::constant, Initializer::orthogonal,
            v -> Loss.meanSquared().times(v),
            v -> Loss.meanSquared().plusL2(Linear.of(1, 1, Generator.seeded(1)), path -> true, v),
            Loss::triplet, Loss::contrastive, Loss::cosineEmbedding,
            v -> Augment.normalize(1, 2, 2, new float[] {(float) v}, new float[] {1}),
            v -> Transforms.normalize(new float[] {(float) v}, new float[] {1}));

    private static void assertRefused(List<DoubleFunction<Object>> all, double value) {
        for (int i = 0; i < all.size(); i++) {
            DoubleFunction<Object> each = all.get(i);
            assertThat(each.apply(0.5)).isNotNull();
            assertThatThrownBy(() -> each.apply(value)).as("number %s", i).isInstanceOf(TensorException.class)
                    .hasMessageContaining("finite, got").hasMessageContaining(Double.toString(value));
        }
    }

    @ParameterizedTest
    @ValueSource(doubles = {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY})
    void refusesNaNAndInfinity(double value) {
        assertRefused(RATES, value);
        assertRefused(OTHERS, value);
    }

    @Test
    void refusesRatesThatClimb() {
        assertRefused(RATES, -1);
    }
}
