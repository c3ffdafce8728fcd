package dev.starling.tensor.cpu.rows;

/**
 * The transforms of Winograd's minimal filtering F(m×m, 3×3) on tiles of f32 images whose channels are adjacent:
 * {@code Y = Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d B)]A}. A transformed block of tiles is {@link #planes} planes, {@code plane} bytes
 * apart, of {@code tiles × channels}. (Lavin and Gray, Fast algorithms for convolutional neural networks, 2015)
 */
public interface WinogradTiles {
    /**
     * The pixels of equal squares, column by column: where each lies in the first square, and the bytes to the next
     * one.
     */
    final class Squares {
        public final long[] at;
        public final long[] step;

        /** Makes room for squares of {@code side × side} pixels. */
        public Squares(int side) {
            at = new long[side * side];
            step = new long[side * side];
        }
    }

    /** Returns m: the pixels of an output tile's side. */
    int side();

    /** Returns the side of the patch of input pixels that a tile needs. */
    default int patchSide() {
        return side() + 2;
    }

    default int planes() {
        return patchSide() * patchSide();
    }

    /** Returns the number that channel counts must be multiples of. */
    int lanes();

    /** Transforms patches to rows of the planes: Bᵀ d B. */
    void patches(Squares from, int count, int channels, long v, long plane);

    /** Transforms rows of the planes to pixels, adds a bias and, if requested, takes the positive part: Aᵀ m A. */
    void pixels(long m, long plane, int count, int channels, long bias, boolean relu, Squares to);

    /** Transforms the gradients of tiles of pixels to rows of the planes: A g Aᵀ. */
    void gradients(Squares from, int count, int channels, long z, long plane);

    /**
     * Transforms rows of kernels, whose 9 elements are {@code from} bytes apart, and rows 9 times that, to contiguous
     * rows of planes {@code to} bytes apart: G g Gᵀ.
     */
    void kernels(long g, long from, long u, long to, int rows, int columns);

    /** Transforms gradients of planes back to gradients of kernels: Gᵀ u G. */
    void kernelGradients(long u, long from, long g, long to, int count);
}
