package dev.starling.cuda.kernels;

import dev.starling.cuda.config.ProductEpilogue;
import dev.starling.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * A matrix product with what the same kernel may compute beside it.
 *
 * @param a the left operand; the inputs of a layer
 * @param b the right operand; the weight of a layer, {@code [outputs, inputs]}
 * @param layer whether {@code b} is the weight of a layer, and thus transposed
 * @param bias added to every row, or {@code null}
 * @param after the epilogue
 * @param side the epilogue's operand (for {@link ProductEpilogue#RELU_GRADIENT} the layer's result) or its second
 *     result; {@code null} for an epilogue without
 * @param y the dense result
 */
public record Multiplication(Tensor a, Tensor b, boolean layer, @Nullable Tensor bias, ProductEpilogue after,
        @Nullable Tensor side, Tensor y) {
    /** Returns the product of two matrices, or of stacks of them, which broadcast. */
    static Multiplication of(Tensor a, Tensor b, Tensor y) {
        return new Multiplication(a, b, false, null, ProductEpilogue.NOTHING, null, y);
    }

    /** Returns a layer; {@code bias} may be {@code null}. */
    static Multiplication ofLayer(Tensor x, Tensor weight, @Nullable Tensor bias, Tensor y) {
        return new Multiplication(x, weight, true, bias, ProductEpilogue.NOTHING, null, y);
    }

    /** Returns the same product with an epilogue. */
    Multiplication with(ProductEpilogue epilogue, @Nullable Tensor other) {
        return new Multiplication(a, b, layer, bias, epilogue, other, y);
    }

    /** Returns the same product with another result. */
    Multiplication into(Tensor other) {
        return new Multiplication(a, b, layer, bias, after, side, other);
    }

    /** Returns the sizes and strides of the product, of these operands or of copies of them. */
    public Product product(Tensor left, Tensor right) {
        return layer ? Product.ofLayer(left, right) : Product.of(left, right, y.shape());
    }
}
