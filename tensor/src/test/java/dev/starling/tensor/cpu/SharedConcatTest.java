package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.op.Movement;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SharedConcatTest {
    private final Generator data = Generator.seeded(11);

    private static Tensor join(int axis, Tensor... parts) {
        Tensor joined = Tensor.compute(new Movement.Concat(axis, true), parts);
        assertThat(joined.toFloats()).isEqualTo(Tensor.compute(new Movement.Concat(axis), parts).toFloats());
        return joined;
    }

    @Test
    void joinsPartsOfOneTensorWithoutACopy() {
        try (Scope scope = Scope.open()) {
            Tensor whole = data.normal(3, 7, 4);
            for (int axis = 0; axis < 3; axis++) {
                Tensor[] parts = {whole.narrow(axis, 0, 1), whole.narrow(axis, 1, 2)};
                assertThat(join(axis, parts).sharesMemoryWith(whole)).isTrue();
            }
            assertThat(join(1, whole.t().narrow(1, 1, 2), whole.t().narrow(1, 3, 1)).sharesMemoryWith(whole)).isTrue();
        }
    }

    /** Both have the same strides, but not the same shape. */
    @Test
    void isNotTakenForItsFirstPart() {
        try (Scope scope = Scope.open()) {
            Tensor whole = data.normal(4, 3).t();
            Tensor[] columns = new Tensor[4];
            Arrays.setAll(columns, i -> whole.narrow(1, i, 1));
            Tensor joined = join(1, columns);
            assertThat(joined.mul(columns[0]).toFloats())
                    .isEqualTo(joined.copy().mul(columns[0].copy()).toFloats());
        }
    }

    @Test
    void copiesWhatLiesOtherwise() {
        try (Scope scope = Scope.open()) {
            Tensor whole = data.normal(6, 5);
            Tensor[][] all = {{whole.narrow(0, 2, 2), whole.narrow(0, 0, 2)}, {whole, whole},
                {whole.narrow(0, 0, 2), whole.narrow(0, 3, 2)}, {whole.narrow(0, 0, 2), whole.narrow(0, 2, 2).copy()},
                {whole.narrow(0, 0, 5), whole.narrow(1, 0, 5).narrow(0, 5, 1).copy()},
                {whole.narrow(1, 0, 2).narrow(0, 0, 2), whole.narrow(1, 1, 2).narrow(0, 2, 2)}};
            for (Tensor[] parts : all) {
                assertThat(join(0, parts).sharesMemoryWith(whole)).isFalse();
            }
            Tensor part = whole.narrow(0, 0, 2);
            assertThat(Tensor.concat(0, part, whole.narrow(0, 2, 2)).sharesMemoryWith(whole)).as("default").isFalse();
        }
    }

    @ParameterizedTest
    @CsvSource({"1, 4, 5, 8", "3, 2, 33, 6", "2, 1, 1, 3", "2, 3, 1, 4"})
    void gradientsOfAProjectionsPartsAreItsParts(int n, int heads, int length, int width) {
        try (Scope scope = Scope.open()) {
            Tensor all = data.normal(n, length, 3L * heads * width);
            Tensor[] parts = new Tensor[3];
            Tensor[] copies = new Tensor[3];
            for (int i = 0; i < 3; i++) {
                parts[i] = all.narrow(2, (long) i * heads * width, (long) heads * width)
                        .reshape(n, length, heads, width).permute(0, 2, 1, 3);
                copies[i] = parts[i].copy();
            }
            Tensor g = data.normal(n, heads, length, width);
            Tensor[] gradients = gradients(g, parts);
            Tensor[] expected = gradients(g, copies);
            Tensor[] rows = new Tensor[3];
            for (int i = 0; i < 3; i++) {
                assertThat(gradients[i].toFloats()).isEqualTo(expected[i].toFloats());
                rows[i] = gradients[i].permute(0, 2, 1, 3).reshape(n, length, (long) heads * width);
            }
            Tensor joined = join(2, rows);
            assertThat(length == 1 || joined.sharesMemoryWith(gradients[0])).isTrue();
        }
    }

    @Test
    void gradientsOfAPrefixOfTheQueriesAreSeparate() {
        try (Scope scope = Scope.open()) {
            Tensor all = data.normal(1, 5, 3 * 2 * 4);
            Tensor q = heads(all.narrow(2, 0, 8).narrow(1, 0, 3));
            Tensor k = heads(all.narrow(2, 8, 8));
            Tensor v = heads(all.narrow(2, 16, 8));
            Tensor g = data.normal(1, 2, 3, 4);
            Tensor[] gradients = gradients(g, q, k, v);
            Tensor[] expected = gradients(g, q.copy(), k.copy(), v.copy());
            for (int i = 0; i < 3; i++) {
                assertThat(gradients[i].toFloats()).isEqualTo(expected[i].toFloats());
            }
        }
    }

    private static Tensor heads(Tensor x) {
        return x.reshape(1, x.size(1), 2, 4).permute(0, 2, 1, 3);
    }

    private static Tensor[] gradients(Tensor g, Tensor... parts) {
        Tensor[] results = Tensor.apply(new Attention.ScaledDotProduct(0.5, true), parts);
        return Tensor.apply(new Attention.ScaledDotProductGradient(0.5, true), g, parts[0], parts[1], parts[2],
                results[0], results[1]);
    }
}
