"""The names of Redisson's own tests of its synchronizers, as of 4.7.1-SNAPSHOT (2026-08-21).

Without those of its internals that have no counterpart here (`AsyncSemaphoreTest`, the
in-process `SpinLockTest`) and one that is disabled. `RedissonRedLockTest` was removed there on
2026-05-05. `tests/PARITY.md` says for each what shows the same here; `test_parity.py` checks it.
"""

from __future__ import annotations

_TEXT = {
    "RedissonLockTest": """
        testSubscriptionsPerConnection testSinglePubSub
        testLockIsNotRenewedAfterInterruptedTryLock testRedisFailed testRemainTimeToLive2
        testTryLockWait testLockUninterruptibly testForceUnlock testExpire
        testRemainTimeToLive testInCluster testAutoExpire testGetHoldCount
        testIsHeldByCurrentThreadOtherThread testIsHeldByCurrentThread
        testIsLockedOtherThread testLockFailoverInCluster testIsLocked testUnlockFail
        testLockUnlock testReentrancy testConcurrencyTryLockUnLock
        testConcurrency_SingleInstance testConcurrencyLoop_MultiInstance
        testConcurrency_MultiInstance testLockListener
    """,
    "RedissonLockHeavyTest": """
        lockUnlockRLock tryLockUnlockRLock
    """,
    "RedissonLockExpirationRenewalTest": """
        testWriteLockAfterTimeout testReadLockAfterTimeout testLockAfterTimeout
        testLockReentrantRenew
    """,
    "RedissonLockReactiveTest": """
        testMultiLock testIsHeldByThread testLockReactiveListener
    """,
    "RedissonLockRxTest": """
        testMultiLock testIsHeldByThread testLockRxListener
    """,
    "RedissonFairLockTest": """
        testLeaseTimeout testMultipleLocks testWaitTimeoutDrift testLockAcquiredTimeoutDrift
        testAcquireFailedTimeoutDrift_Descrete testLockAcquiredBooleanTimeoutDrift_Descrete
        testLockAcquiredTimeoutDrift_Descrete testAbandonedTimeoutDrift_Descrete
        testFirstThreadDeathTimeoutDrift testTryLockNonDelayed testTryLockWait
        testForceUnlock testExpire testAutoExpire testGetHoldCount
        testIsHeldByCurrentThreadOtherThread testIsHeldByCurrentThread
        testIsLockedOtherThread testIsLocked testUnlockFail testLockUnlock testReentrancy
        testConcurrency_SingleInstance testConcurrencyLoop_MultiInstance
        testConcurrency_MultiInstance testConcurrency_MultiInstance_Ordering testNameMapper
        testAcquireFailedNotCalledOnRedisTimeout
    """,
    "RedissonNonReentrantLockTest": """
        testContendingThreadBlocksAndAcquiresOnRelease testSameThreadReacquireThrows
        testCrossInstanceSameThreadReentryThrows
    """,
    "RedissonNonReentrantFairLockTest": """
        testContendingThreadBlocksAndAcquiresOnRelease testSameThreadReacquireThrows
        testCrossInstanceSameThreadReentryThrows
    """,
    "RedissonReadWriteLockTest": """
        testReadLockExpiration testReadLockIsLocked testReadLockExpirationRenewal testName
        testWriteLockExpiration testInCluster testReadLockLeaseTimeoutDiffThreadsWRR
        testReadLockLeaseTimeoutDiffThreadsRRW testReadLockLeaseTimeout testWR testWriteRead
        testWriteReadReentrancy testWriteLock testMultiRead testForceUnlock testReadWriteTTL
        testExpireRead testExpireWrite testAutoExpire testHoldCount
        testIsHeldByCurrentThreadOtherThread testIsHeldByCurrentThread
        testIsLockedOtherThread testIsLocked testLockUnlock testReentrancy testUnlockFail
        testConcurrency_SingleInstance testConcurrencyLoop_MultiInstance
        testConcurrency_MultiInstance testMultiInstanceReadLockZombieCleanup
    """,
    "RedissonFencedLockTest": """
        testTokenIncrease
    """,
    "RedissonSpinLockTest": """
        testRedisFailed testTryLockWait testLockUninterruptibly testForceUnlock testExpire
        testInCluster testAutoExpire testGetHoldCount testIsHeldByCurrentThreadOtherThread
        testIsHeldByCurrentThread testIsLockedOtherThread testIsLocked testUnlockFail
        testLockUnlock testReentrancy testConcurrency_SingleInstance
        testConcurrencyLoop_MultiInstance testConcurrency_MultiInstance testTryLockAsync
        testTimedTryLockAsync testTryLockAsyncWaitTime testTryLockAsyncFailed
        testTryLockAsyncSucceed
    """,
    "LockOptionsTest": """
        testExponentialBackoff testConstantBackoff
    """,
    "RedissonMultiLockTest": """
        testLockUnlock testWaitAndLeaseTimeouts testMultiThreads test
    """,
    "RedissonFasterMultiLockTest": """
        testSimpleLock testReentrantLock testForceUnLock testRenewExpiration testTryLock
        testTryLockWait testIsHeldAndIsLockedByThread testSubscriptionsPerConnection
        testSinglePubSub testLockIsNotRenewedAfterInterruptedTryLock testRedisFailed
        testLockUnInterruptibly testExpire testInCluster testAutoExpire
        testIsHeldByCurrentThreadOtherThread testIsHeldByCurrentThread
        testIsLockedOtherThread testIsLocked testUnlockFail testReentrancy
        testConcurrency_SingleInstance testConcurrencyLoop_MultiInstance
        testConcurrency_MultiInstance
    """,
    "RedissonRedLockTest": """
        testLockLeasetimeWithSeconds testLockLeasetimeWithMinutes testTryLockLeasetime
        testLockFailed testLockSuccess testLockSuccess2 testConnectionFailed
    """,
    "RedissonSemaphoreTest": """
        testAcquireAfterAddPermits testZero testAcquireWithoutSetPermits testTrySetPermits
        testAddPermits testReducePermits testBlockingAcquire testBlockingNAcquire
        testTryNAcquire testReleaseWithoutPermits testDrainPermits testReleaseAcquire
        testReleaseIfExists testConcurrency_SingleInstance
        testConcurrencyLoopMax_MultiInstance testConcurrencyLoop_MultiInstance
        testConcurrency_MultiInstance_1_permits
    """,
    "RedissonPermitExpirableSemaphoreTest": """
        testGetInClusterNameMapper testUpdateLeaseTime testNotExistent testAvailablePermits
        testAcquiredPermits testGetPermits testExpiration testExpire testExpireTryAcquire
        testTrySetPermits testSetPermits testAddPermits testBlockingAcquire
        testBlockingAcquireMany testTryAcquire testTryAcquireMany testReleaseWithoutPermits
        testReleaseExpired testConcurrency_SingleInstance testConcurrencyLoop_MultiInstance
        testAcquire testRelease testAcquireAsyncMany testReleaseAsyncMany
        testReleaseManyExpiredDoesNotThrow testTryReleaseManyExpired
        testReleaseManyNotExistOrExpired testGetLeaseTime testConcurrencyMultiPermits
        testConcurrencyMultiPermits2
    """,
    "RedissonCountDownLatchTest": """
        testAwaitTimeout testAwaitTimeoutFail testMultiAwait testCountDown testDelete
        testDeleteFailed testTrySetCount testCount
    """,
    "RedissonCountDownLatchConcurrentTest": """
        testSingleCountDownAwait_SingleInstance
    """,
    "RedissonRateLimiterTest": """
        testKeepAliveTime testExpire2 testExpire testRateValue testAcquisitionInterval
        testRateConfig testUpdateRateConfig testAvailablePermits testPermitsExceeding
        testZeroTimeout testTryAcquire testAcquire test testRemove testConcurrency2
        testConcurrency testChangeRate testSetStateArgs testSetStateArgsKeepState
        testSetStateArgsNotKeepState testUpdateRateNonExisting testUpdateRateKeepsState
        testUpdateRateHigherRate testUpdateRateLowerRateNewValuePositive
        testUpdateRateLowerRateNewValueNegative testUpdateRatePermitResetFull
        testUpdateRateModeChangeClearsState
        testUpdateRateKeepAliveTimeLessThanIntervalThrows
        testUpdateRateRateIntervalChangeDropsExpired testUpdateRatePerClientUsesClientState
        testRelease
    """,
    "RedissonGcraTest": """
        testTrySetRate testTryAcquire testTryAcquireWithTokens testSetRate
        testGetConfigNotSet testTryAcquireRateNotSet testValidation testDelete
        testDeprecatedTryAcquire
    """,
    "ReadLockEntryTest": """
        shouldHaveNoThreadsAfterNonReentrantAcquireAndRelease
        shouldHaveNoThreadsAfterReentrantAcquireAndRelease
    """,
    "CountDownLatchPubSubTest": """
        testOnZeroMessageAllListenersExecuted
    """,
    "PublishSubscribeTest": """
        testSubscribeForRaceCondition
        testSubscribeNoTimeoutReleasesSemaphoreIfEntryIsMissing
    """,
}

NAMES = {name: text.split() for name, text in _TEXT.items()}
"""The tests of each class."""

#: The known weaknesses of its design (the numbers go on from section to section).
WEAKNESSES = [
    f"{section}{number}"
    for section, numbers in (
        ("A", range(1, 18)),  # correctness and safety
        ("B", range(18, 27)),  # fairness and queueing
        ("C", range(27, 37)),  # wake-ups and scalability
        ("D", range(37, 43)),  # gaps of the API
    )
    for number in numbers
]
