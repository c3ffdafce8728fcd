package dev.starling.nn.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import org.junit.jupiter.api.Test;

class Gpt2Test {
    private static final int VOCABULARY = 13;
    private static final Loss NEXT = Loss.crossEntropyOfLast();

    @Test
    void hasAsManyParametersAsThePublishedSmallModel() {
        try (Gpt2 model = Gpt2.small(50_257, Generator.seeded(1))) {
            long count = model.parameters().values().stream().mapToLong(p -> p.shape().count()).sum();
            assertThat(count).isEqualTo(124_439_808);
        }
    }

    @Test
    void computesEachTokenFromEarlierTokensOnly() {
        try (Scope scope = Scope.open(); Gpt2 model = tiny()) {
            Tensor text = Tensor.of(new long[] {1, 2, 3, 4, 5, 6}, 1, 6);
            Tensor other = Tensor.of(new long[] {1, 2, 3, 4, 7, 8}, 1, 6);
            Tensor a = model.forward(text);
            Tensor b = model.forward(other);
            assertThat(a.shape().dims()).containsExactly(1, 6, VOCABULARY);
            assertThat(a.narrow(1, 0, 4).toFloats()).isEqualTo(b.narrow(1, 0, 4).toFloats());
            assertThat(a.narrow(1, 4, 2).toFloats()).isNotEqualTo(b.narrow(1, 4, 2).toFloats());
        }
    }

    @Test
    void learnsToCount() {
        try (Gpt2 model = tiny(); Optimizer adam = Adam.over(model).rate(1e-2).build(); Scope scope = Scope.open()) {
            long[] texts = new long[4 * 9];
            for (int i = 0; i < texts.length; i++) {
                texts[i] = (i / 9 * 3 + i % 9) % VOCABULARY;
            }
            Tensor all = Tensor.of(texts, 4, 9);
            Tensor text = all.narrow(1, 0, 8).contiguous();
            Tensor next = all.narrow(1, 1, 8).contiguous();
            TrainingStep step = new TrainingStep(model, NEXT, adam, Generator.seeded(2));
            assertThat(step.run(text, next)).as("an untrained model guesses").isCloseTo(Math.log(VOCABULARY),
                    within(0.2));
            for (int i = 0; i < 60; i++) {
                step.run(text, next);
            }
            assertThat(step.run(text, next)).isLessThan(0.1);
        }
    }

    @Test
    void refusesATextThatIsTooLong() {
        try (Scope scope = Scope.open(); Gpt2 model = tiny()) {
            Tensor text = Tensor.of(new long[9], 1, 9);
            assertThatThrownBy(() -> model.forward(text)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("8 tokens");
        }
    }

    private static Gpt2 tiny() {
        return Gpt2.of(VOCABULARY, 8, 16, 2, 2, Generator.seeded(1));
    }
}
