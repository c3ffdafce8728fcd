package dev.starling.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Contractions against NumPy 2.4's results for the same equation and operands. */
class EinsumTest {
    private static long[] shape(long... dims) {
        return dims;
    }

    private static double[] array(double... elements) {
        return elements;
    }

    /** Makes operands that count -2, -1, 0, 1, 2, 3, 4, -2, .. in row-major order. */
    private static Tensor[] operands(long[]... shapes) {
        return Arrays.stream(shapes).map(s -> {
            double[] elements = new double[(int) Shape.of(s).count()];
            Arrays.setAll(elements, i -> i % 7 - 2);
            return s.length == 0 ? Tensor.of(elements).reshape() : Tensor.of(elements, s);
        }).toArray(Tensor[]::new);
    }

    private static double[] positiveZeros(Tensor t) {
        return Arrays.stream(t.toDoubles()).map(v -> v + 0.0).toArray();
    }

    private static void check(String equation, String shape, double[] elements, Tensor[] operands) {
        Tensor result = Einsum.einsum(equation, operands);
        assertThat(result.shape()).as(equation).hasToString(shape);
        assertThat(result.dtype()).isEqualTo(DType.F64);
        assertThat(positiveZeros(result)).as(equation).containsExactly(elements);
        Tensor[] integers = Arrays.stream(operands).map(t -> t.to(DType.I32)).toArray(Tensor[]::new);
        assertThat(Einsum.einsum(equation, integers).dtype()).isEqualTo(DType.I32);
        assertThat(positiveZeros(Einsum.einsum(equation, integers))).as(equation).containsExactly(elements);
        Tensor[] narrow = Arrays.stream(operands).map(t -> t.to(DType.F32)).toArray(Tensor[]::new);
        assertThat(positiveZeros(Einsum.einsum(equation, narrow))).as(equation).containsExactly(elements);
        Tensor[] strided = Arrays.stream(operands).map(t -> t.rank() < 2 ? t : t.t().contiguous().t())
                .toArray(Tensor[]::new);
        assertThat(positiveZeros(Einsum.einsum(equation, strided))).as(equation).containsExactly(elements);
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void contractsAsNumPyDoes(String device) {
        Device.with(Device.of(device, 0), () -> {
            try (Scope scope = Scope.open("test")) {
                contractions();
            }
            return null;
        });
    }

    private static void contractions() {
        check("ij,jk->ik", "[2, 2]", array(4, 1, 4, 10), operands(shape(2, 3), shape(3, 2)));
        check("ij,jk", "[2, 2]", array(4, 1, 4, 10), operands(shape(2, 3), shape(3, 2)));
        check("ij,kj->ki", "[4, 2]", array(5, -4, -4, 14, -6, -3, -1, 8), operands(shape(2, 3), shape(4, 3)));
        check("bij,bjk->bik", "[2, 2, 2]", array(4, 1, 4, 10, 17, -10, 1, 4), operands(shape(2, 2, 3), shape(2, 3,
                2)));
        check("bhij,bhkj->bhik", "[1, 2, 2, 3]", array(5, -4, -6, -4, 14, -3, -4, 6, -5, 5, 0, 2), operands(shape(1,
                2, 2, 3), shape(1, 2, 3, 3)));
        check("i,i->", "[]", array(10), operands(shape(5), shape(5)));
        check("i,j->ij", "[3, 2]", array(4, 2, 2, 1, 0, 0), operands(shape(3), shape(2)));
        check("ij->ji", "[3, 2]", array(-2, 1, -1, 2, 0, 3), operands(shape(2, 3)));
        check("ij->", "[]", array(3), operands(shape(2, 3)));
        check("ij->j", "[3]", array(-1, 1, 3), operands(shape(2, 3)));
        check("ii->i", "[3]", array(-2, 2, -1), operands(shape(3, 3)));
        check("ii", "[]", array(-1), operands(shape(3, 3)));
        check("iij->ji", "[3, 2]", array(-2, 0, -1, 1, 0, 2), operands(shape(2, 2, 3)));
        check("ijij->", "[]", array(-12), operands(shape(2, 3, 2, 3)));
        check("...ij,...jk->...ik", "[2, 3, 2, 2]", array(4, 1, 4, 10, -7, 4, 5, 4, -4, -7, -1, 5, -10, -9, 4, 7, 17,
                -10, 1, 4, 16, 17, -2, 1), operands(shape(2, 1, 2, 3), shape(3, 3, 2)));
        check("...ii->...i", "[2, 3]", array(-2, 2, -1, 0, 4, 1), operands(shape(2, 3, 3)));
        check("i...->...", "[3]", array(-1, 1, 3), operands(shape(2, 3)));
        check("ba", "[3, 2]", array(-2, 1, -1, 2, 0, 3), operands(shape(2, 3)));
        check("ij,ij->ij", "[2, 3]", array(4, 1, 0, -2, -2, 0), operands(shape(1, 3), shape(2, 3)));
        check("ij,ij->i", "[2]", array(5, -4), operands(shape(1, 3), shape(2, 3)));
        check("ijk,jil->kl", "[2, 2]", array(-1, 10, 3, 6), operands(shape(2, 3, 2), shape(3, 2, 2)));
        check("ij,jk,kl->il", "[2, 3]", array(-7, -2, 3, 2, 16, 30), operands(shape(2, 3), shape(3, 2), shape(2, 3)));
        check("ij,j,k->ik", "[2, 2]", array(-10, -5, 8, 4), operands(shape(2, 3), shape(3), shape(2)));
        check("i,ij,j->", "[]", array(-6), operands(shape(2), shape(2, 3), shape(3)));
        check("aB,Bc->ca", "[2, 2]", array(4, 4, 1, 10), operands(shape(2, 3), shape(3, 2)));
        check("ab,bc,cd,ab->d", "[2]", array(16, 6), operands(shape(2, 2), shape(2, 2), shape(2, 2), shape(2, 2)));
        check("iji,ij->j", "[4]", array(2, 8, 4, 11), operands(shape(4, 4, 4), shape(4, 4)));
        check("iji,ik->jk", "[2, 2]", array(0, -6, 0, 3), operands(shape(3, 2, 3), shape(3, 2)));
        check("ij , jk -> ...ik", "[2, 2]", array(4, 1, 4, 10), operands(shape(2, 3), shape(3, 2)));
        check("ij,jk->ik", "[2, 2]", array(0, 0, 0, 0), operands(shape(2, 0), shape(0, 2)));
        check(",ij->ij", "[2, 2]", array(4, 2, 0, -2), operands(shape(), shape(2, 2)));
        check("...,...->...", "[2, 3]", array(4, 1, 0, -2, -2, 0), operands(shape(3), shape(2, 3)));
        check("...a,a...->...", "[2]", array(4, 10), operands(shape(2, 3), shape(3, 2)));
    }

    @Test
    void faultsAreTyped() {
        assertFault("ij,jk->ik", TensorException.Problem.ARGUMENT, shape(2, 3));
        assertFault("ijk->i", TensorException.Problem.SHAPE, shape(2, 3));
        assertFault("i...->i", TensorException.Problem.SHAPE, shape());
        assertFault("ij,jk->ik", TensorException.Problem.SHAPE, shape(2, 3), shape(2, 3));
        assertFault("ii->i", TensorException.Problem.SHAPE, shape(2, 3));
        assertFault("ij->ii", TensorException.Problem.ARGUMENT, shape(2, 3));
        assertFault("ij->k", TensorException.Problem.ARGUMENT, shape(2, 3));
        assertFault("i1->i", TensorException.Problem.ARGUMENT, shape(2, 3));
        assertFault("......->i", TensorException.Problem.ARGUMENT, shape(2, 3));
        assertThatThrownBy(() -> Einsum.einsum("i->", Tensor.of(new boolean[] {true})))
                .isInstanceOf(TensorException.class).hasMessageContaining("einsum(\"i->\")")
                .hasMessageContaining("cast");
    }

    private static void assertFault(String equation, TensorException.Problem problem, long[]... shapes) {
        Device.with(Device.reference(), () -> {
            assertThatThrownBy(() -> Einsum.einsum(equation, operands(shapes)))
                    .isInstanceOfSatisfying(TensorException.class, e -> {
                        assertThat(e.problem()).isEqualTo(problem);
                        assertThat(e.op()).contains(equation);
                    });
            return null;
        });
    }
}
