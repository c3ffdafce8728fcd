package dev.starling.nn.optim;

import dev.starling.tensor.Tensor;
import java.util.function.DoubleFunction;

/**
 * Finds a step length at which the loss and the size of its slope have become smaller in proportion to the slope before
 * the step: the strong Wolfe conditions. (Nocedal and Wright, Numerical optimization, 2006, algorithms 3.5 and 3.6)
 */
final class WolfeSearch {
    private static final double DECREASE = 1e-4;
    private static final double SLOPE = 0.9;
    private static final int EVALUATIONS = 25;

    private final Point start;
    private final double slope;
    private final double smallest;
    private final DoubleFunction<Point> evaluate;
    private int evaluations;

    /**
     * The loss at a distance from the start.
     *
     * @param length distance in directions
     * @param value the loss
     * @param slope its derivative along the direction
     * @param gradient its gradient
     */
    record Point(double length, double value, double slope, Tensor gradient) { }

    /**
     * Prepares a search.
     *
     * @param smallest difference of lengths that no longer counts
     * @param evaluate computes the loss at a distance
     */
    WolfeSearch(Point start, Tensor direction, double smallest, DoubleFunction<Point> evaluate) {
        slope = start.gradient().mul(direction).sum().item();
        this.start = new Point(0, start.value(), slope, start.gradient());
        this.smallest = smallest;
        this.evaluate = evaluate;
    }

    /** Returns a point that satisfies the conditions, or the lowest one that was found within 25 evaluations. */
    Point from(double first) {
        Point before = start;
        Point point = at(first);
        while (evaluations < EVALUATIONS) {
            if (!isLow(point) || evaluations > 1 && point.value() >= before.value()) {
                return between(before, point);
            }
            if (Math.abs(point.slope()) <= -SLOPE * slope) {
                return point;
            }
            if (point.slope() >= 0) {
                return between(point, before);
            }
            before = point;
            point = at(2 * point.length());
        }
        return isLow(point) ? point : before;
    }

    private Point at(double length) {
        evaluations++;
        return evaluate.apply(length);
    }

    /** Returns whether the loss has decreased in proportion to the slope; false if it is NaN. */
    private boolean isLow(Point point) {
        return point.value() <= start.value() + DECREASE * point.length() * slope;
    }

    /** Narrows an interval. {@code low} has decreased the loss, and the loss falls from there towards {@code high}. */
    private Point between(Point low, Point high) {
        Point best = low;
        Point other = high;
        while (evaluations < EVALUATIONS && Math.abs(other.length() - best.length()) > smallest) {
            Point point = at(minimum(best, other));
            if (!isLow(point) || point.value() >= best.value()) {
                other = point;
                continue;
            }
            if (Math.abs(point.slope()) <= -SLOPE * slope) {
                return point;
            }
            if (point.slope() * (other.length() - best.length()) >= 0) {
                other = best;
            }
            best = point;
        }
        return best;
    }

    /** Returns the minimum of the cubic through both points, in the inner 80 % of the interval. */
    private static double minimum(Point a, Point b) {
        double span = b.length() - a.length();
        double d1 = a.slope() + b.slope() - 3 * (b.value() - a.value()) / span;
        double d2 = Math.signum(span) * Math.sqrt(d1 * d1 - a.slope() * b.slope());
        double share = 1 - (b.slope() + d2 - d1) / (b.slope() - a.slope() + 2 * d2);
        return a.length() + span * (share >= 0.1 && share <= 0.9 ? share : 0.5);
    }
}
