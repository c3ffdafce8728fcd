package dev.starling.jmh.cluster;

import java.nio.file.Path;

/**
 * A member's place in a measurement.
 *
 * @param world number of members
 * @param directory in which members publish values to each other
 * @param host address at which the other members reach this one
 */
record Seat(int rank, int world, Path directory, String host) {
}
