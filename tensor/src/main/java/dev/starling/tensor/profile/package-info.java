/**
 * Events for the JDK's Flight Recorder, and pages that show them.
 *
 * <p>Events cost almost nothing until a recording enables them, with {@link dev.starling.tensor.profile.Profiler},
 * {@code jcmd JFR.start} or {@code -XX:StartFlightRecording}.
 */
package dev.starling.tensor.profile;
