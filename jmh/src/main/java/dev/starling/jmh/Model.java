package dev.starling.jmh;

/** The networks to compare; each engine builds its own of the same architecture. */
public enum Model {
    /** 784-1024-1024-10 with ReLU; input {@code [N, 784]}. */
    MLP(784),
    /**
     * 3×3 convolutions to 32, 32, pool, 64, 64 channels, pool, then 4096-512-10, with ReLU; input
     * {@code [N, 3, 32, 32]}.
     */
    CNN(3, 32, 32),
    /**
     * ResNet-18 in its CIFAR form (He et al., 2016): 3×3 stem of 64 channels, no max-pool, two basic blocks each of 64,
     * 128, 256 and 512 channels, global average, 512-10; batch norm after each convolution, no convolution bias; input
     * {@code [N, 3, 32, 32]}.
     */
    RESNET18(3, 32, 32),
    /** Two LSTM layers of 256 units, then 256-10 on the last state; input {@code [N, 64, 128]}. */
    LSTM(64, 128),
    /**
     * Four blocks of GPT-2 of width 128 (causal attention of 4 heads, a perceptron of 512 units with GELU's
     * approximation by a hyperbolic tangent), layer norm, then 16384-10 on all positions; input
     * {@code [N, 128, 128]}, as embedded.
     */
    GPT(128, 128);

    /** Number of classes. */
    public static final int CLASSES = 10;

    private final long[] sample;

    Model(long... sample) {
        this.sample = sample;
    }

    /** Returns the shape of a batch, {@code [samples, ...]}. */
    public long[] batchShape(int samples) {
        long[] shape = new long[sample.length + 1];
        shape[0] = samples;
        System.arraycopy(sample, 0, shape, 1, sample.length);
        return shape;
    }
}
