// The JSON of the debug pages, as the page reads it; docs/debugging.md documents the fields. Only the
// type checker reads this file.


type ServerState = "live"|"terminating"|"deletingDependents"|"orphaning"|"absent"|"unknown"|"unresolved"|"invalidScope";
/** A state of the server, or `gone`: it was shown a moment ago. */
type State = ServerState|"gone";

type ObjectName = {apiVersion: string, kind: string, resource: string|null, namespace: string|null, name: string, uid: string};
type ObjectView = {resource: string, namespace: string|null, name: string|null, uid: string};
/** What the address says about an object. */
type Ref = {uid: string, resource: string|null};

type GraphNode = ObjectName & {state: State, waitsFor: number, distance: number};
/** What the server's table says of an object. */
type Row = {ready: string|null, isReady: boolean|null, age: string|null};
type Edge = {dependent: number, owner: number, controller: boolean, blockOwnerDeletion: boolean, class: string|null};
type More = {owner: number, kind: string, resource: string, count: number, beingDeleted: number};
type Unseen = {what: string, why: string};
/** `gone` are the uids of what has left the graph since the last event of the stream. */
type Neighbourhood = {nodes: GraphNode[], edges: Edge[], more: More[], truncated: boolean, incomplete: Unseen[], gone?: string[]};

type QueueSummary = {ready: number, processing: number, delayed: number, parked: number, oldest_ready_seconds: number|null, longest_running_seconds: number|null};
type Summary = {server: string|null, version: string, dry_run: boolean, not_answering: Unseen[], synced: boolean, types: number, not_synced: string[], role: string, leader: string|null, brake: string|null, objects: number, references: number, decisions_total: number, queues: Record<string, QueueSummary>, stuck: Record<string, number>, latencies: Record<string, Histogram>};
/** `le` are the upper bounds of the buckets in seconds; `counts` has one more, and is not cumulative. */
type Histogram = {le: number[], counts: number[]};

type StuckItem = {object: ObjectView, reason: string, since: string, waiting_seconds: number, attempts: number|null, next_retry_seconds: number|null, message: string, blocked_by?: ObjectView[], hint: string};
type StuckPage = {standby: boolean, totals: Record<string, number>, stuck: StuckItem[]};

/** What holds objects that were deleted too long ago. */
type StuckGroup = {sentence: string, advice: string[], objectCount: number, objects: ObjectName[]};
type Causes = {groups: StuckGroup[]};

type OwnerView = {api_version: string, kind: string, name: string, uid: string, class: string, evidence: string, error: string|null};
type Decision = {at: string, object: ObjectView, action: string, policy: string|null, finalizer: string|null, outcome: string, error: string|null, owners: OwnerView[], more_owners?: number, owner: ObjectView|null};
type Deletions = {at: string, namespace: string|null, resource: string, owner: OwnerView, count: number};
type DecisionsPage = {total: number, capacity: number, decisions: Decision[], deletions?: Deletions[]};

type Found = ObjectView & {kind: string, state: ServerState, deleted?: string};
type FoundPage = {found: Found[], more: boolean, searched: string};

type Evidence = {kind: string, uid?: string, servedAs?: string|null, error?: string};
type Reference = {owner: ObjectName, controller: boolean, blockOwnerDeletion: boolean, class: string, evidence: Evidence};
type Finalizer = {name: string, remover: string|null, when: string|null, setBy: {manager: string, time: string|null}|null, apiIsServed: boolean|null};
type Leaf = {object: ObjectName, blocks: ObjectName, hold: string, waitsFor: string, finalizers: Finalizer[], deleted: string|null};
type Chain = {links: {object: ObjectName, waitsFor: number}[], leaves: Leaf[], truncated: boolean};
type NamespaceReport = {left: number, beingDeleted: number, byType: {kind: string, resource: string, count: number}[], held: {finalizer: Finalizer, firstSet: string|null, count: number, objects: ObjectName[]}[], notRead: number, conditions: {kind: string, message: string}[], silentApis: Unseen[]};
type Explanation = {object: ObjectName, outcome: string, verdict: string, deleted: string|null, references: Reference[], referenceCount: number, finalizers: Finalizer[], chain: Chain, namespace: NamespaceReport|null, advice: string[], dependsOnUnseen: boolean, incomplete: Unseen[], decisions: Decision[], stuck: StuckItem|null};
