package dev.starling.nn.optim;

/**
 * A schedule that prints its settings.
 *
 * @param text the settings
 * @param rates the rates
 */
record NamedSchedule(String text, Schedule rates) implements Schedule {
    @Override
    public double rate(long steps) {
        return rates.rate(steps);
    }

    @Override
    public String toString() {
        return text;
    }
}
