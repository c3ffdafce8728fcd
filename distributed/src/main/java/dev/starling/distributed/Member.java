package dev.starling.distributed;

/**
 * A process of a group.
 *
 * @param id never used twice in the life of a group
 * @param rank place in the present epoch, from 0 without gaps
 * @param address where its transport is reached
 * @param host processes with the same text can map each other's memory
 */
public record Member(long id, int rank, String address, String host) { }
