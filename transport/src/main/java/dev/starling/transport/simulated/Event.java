package dev.starling.transport.simulated;

/** An action at a point in virtual time. */
record Event(long timeNs, long number, Runnable action) implements Comparable<Event> {
    @Override
    public int compareTo(Event other) {
        int byTime = Long.compare(timeNs, other.timeNs);
        return byTime != 0 ? byTime : Long.compare(number, other.number);
    }
}
