package dev.starling.nn.energy;

/** The distribution of a restricted Boltzmann machine's visible units, given its hidden units. */
public enum VisibleUnits {
    /** Each unit is 0 or 1; data are probabilities from 0 to 1. (Smolensky, 1986; Hinton, 2002) */
    BERNOULLI,
    /** Each unit is normal with variance 1; data are standardised real numbers. (Hinton and Salakhutdinov, 2006) */
    GAUSSIAN
}
