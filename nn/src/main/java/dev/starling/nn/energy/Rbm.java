package dev.starling.nn.energy;

import dev.starling.nn.Initializer;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;

/**
 * A restricted Boltzmann machine: a distribution over visible units {@code v} and binary hidden units {@code h} in
 * which units of one kind do not interact. With weight {@code W [hidden, visible]}, visible bias {@code b [visible]}
 * and hidden bias {@code c [hidden]}, its energy is {@code -b·v - c·h - h·Wv} for Bernoulli visible units and
 * {@code |v - b|²/2 - c·h - h·Wv} for Gaussian ones, and {@code p(v, h)} is proportional to {@code exp(-energy)}.
 *
 * <p>As a layer it computes {@code p(h = 1 | v)}: {@code [N, visible]} to {@code [N, hidden]}.
 * {@link ContrastiveDivergence} trains it. (Hinton, "A practical guide to training restricted Boltzmann machines",
 * 2010)
 */
public final class Rbm implements Layer {
    private static final double WEIGHT_DEVIATION = 0.01;

    private final VisibleUnits units;
    private final Parameter weight;
    private final Parameter visibleBias;
    private final Parameter hiddenBias;

    private Rbm(VisibleUnits units, Parameter weight, Parameter visibleBias, Parameter hiddenBias) {
        this.units = units;
        this.weight = weight;
        this.visibleBias = visibleBias;
        this.hiddenBias = hiddenBias;
    }

    /**
     * Creates a machine with weights drawn from a normal distribution of deviation 0.01, and biases of 0.
     *
     * @param visible number of visible units, at least 1
     * @param hidden number of hidden units, at least 1
     * @throws TensorException if a number is less than 1
     */
    public static Rbm of(VisibleUnits units, long visible, long hidden, Generator generator) {
        if (visible < 1 || hidden < 1) {
            throw TensorException.argument("rbm", "there must be at least 1 unit of each kind, got " + visible
                    + " visible and " + hidden + " hidden", "use sizes of at least 1");
        }
        return new Rbm(units, Parameter.of(Initializer.normal(0, WEIGHT_DEVIATION), generator, hidden, visible),
                Parameter.filled(0, visible), Parameter.filled(0, hidden));
    }

    /** Returns the distribution of the visible units. */
    public VisibleUnits units() {
        return units;
    }

    /** Returns the weight {@code [hidden, visible]}, in the layout of a {@link dev.starling.nn.layer.Linear} layer. */
    public Parameter weight() {
        return weight;
    }

    /** Returns the bias of the visible units {@code [visible]}. */
    public Parameter visibleBias() {
        return visibleBias;
    }

    /** Returns the bias of the hidden units {@code [hidden]}. */
    public Parameter hiddenBias() {
        return hiddenBias;
    }

    /** Returns {@code p(h = 1 | v)}: {@code [N, visible]} to {@code [N, hidden]}. */
    @Override
    public Tensor forward(Tensor v) {
        return activation(v).sigmoid();
    }

    private Tensor activation(Tensor v) {
        return Functions.linear(v, weight.value(), hiddenBias.value());
    }

    /**
     * Returns the mean of the visible units given hidden ones, {@code [N, hidden]} to {@code [N, visible]}. For
     * Bernoulli units it is the probability of 1.
     */
    public Tensor visible(Tensor h) {
        Tensor mean = h.matmul(weight.value()).add(visibleBias.value());
        return units == VisibleUnits.BERNOULLI ? mean.sigmoid() : mean;
    }

    /** Draws hidden units given visible ones: {@code [N, visible]} to {@code [N, hidden]} of 0 and 1. */
    public Tensor sampleHidden(Tensor v, Generator generator) {
        return draw(forward(v), generator);
    }

    /** Draws visible units given hidden ones: {@code [N, hidden]} to {@code [N, visible]}. */
    public Tensor sampleVisible(Tensor h, Generator generator) {
        Tensor mean = visible(h);
        return units == VisibleUnits.BERNOULLI ? draw(mean, generator)
                : mean.add(generator.normal(mean.spec(), 0, 1));
    }

    private static Tensor draw(Tensor probability, Generator generator) {
        return generator.uniform(probability.spec(), 0, 1).lt(probability).to(probability.dtype());
    }

    /**
     * Returns the free energy of visible units, {@code [N, visible]} to {@code [N]}: {@code F(v) = -log Σ_h
     * exp(-energy(v, h))}, so that {@code p(v)} is proportional to {@code exp(-freeEnergy(v))}.
     */
    public Tensor freeEnergy(Tensor v) {
        Tensor hidden = activation(v).softplus().sum(1);
        Tensor visible = units == VisibleUnits.BERNOULLI ? v.mul(visibleBias.value()).sum(1).neg()
                : v.sub(visibleBias.value()).square().sum(1).mul(0.5);
        return visible.sub(hidden);
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.parameter("weight", weight);
        visitor.parameter("visible_bias", visibleBias);
        visitor.parameter("hidden_bias", hiddenBias);
    }

    @Override
    public String toString() {
        return tree();
    }
}
