package dev.starling.kafka.sample;

import java.util.SplittableRandom;

/**
 * Points of the plane by number, and the side of a line on which each lies. The line turns by a right angle in the
 * middle of the stream: from then on, a model that was trained before is wrong for half of the points.
 *
 * @param turn the number of the first point after the turn
 */
record Points(long turn) {
    static final int COLUMNS = 2;

    /** Returns the coordinates of a point, always the same. */
    static float[] place(long id) {
        SplittableRandom random = new SplittableRandom(id);
        return new float[] {random.nextFloat() * 2 - 1, random.nextFloat() * 2 - 1};
    }

    /** Returns the side, 0 or 1. */
    int side(long id) {
        float[] place = place(id);
        return (id < turn ? place[0] + place[1] : place[0] - place[1]) > 0 ? 1 : 0;
    }
}
