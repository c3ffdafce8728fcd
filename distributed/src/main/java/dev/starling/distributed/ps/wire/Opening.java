package dev.starling.distributed.ps.wire;

import dev.starling.distributed.encoding.RecordCodec;
import dev.starling.nn.train.RunSettings;

/**
 * With what a worker opens a session.
 *
 * @param plan encoded: what servers hold
 * @param settings that must be equal on all workers of the run; a server does not store them
 */
public record Opening(byte[] plan, RunSettings settings) {
    public static final RecordCodec<Opening> CODEC = RecordCodec.of(Opening.class);
}
